"""A schedule is a list of loops. Splitting, reordering, copies and lanes are all in it: several may walk an axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.loops import Bind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.affine import Index, Var


@dataclass(frozen=True, slots=True)
class Loop:
    """Walk an axis in steps, inside of the step of the loop over the same axis further out.

    Attributes:
        step: places of the axis that one iteration covers; 1 in the innermost loop over an axis.
        bind: ``SERIAL`` loops are loops of the program, ``UNROLL`` writes one copy for each iteration, ``LANES`` gives
            each iteration a lane of a vector register.
        partial: each iteration has totals of its own, which are combined after the loops over the folded axes. Lanes
            along a folded axis are partial without it.
        joined: lanes along a folded axis are added to one total in each iteration, as an instruction does that adds up
            products.
    """

    axis: Var
    step: int = 1
    bind: Bind = Bind.SERIAL
    partial: bool = False
    joined: bool = False

    @property
    def is_copied(self) -> bool:
        """Whether iterations lie next to one another in one body: as copies of statements, or in lanes."""
        return self.bind in (Bind.UNROLL, Bind.LANES)


@dataclass(frozen=True, slots=True)
class Schedule:
    """Loops over the axes of a stage, outermost first. What does not fill a step gets loops of its own.

    Loops over axes that are not folded come first, as far as they are serial. What is left is a *tile*: totals of all
    of its copies stay in registers while the serial loops over folded axes run.

    Attributes:
        stream: number of the element whose loads follow one another by address in the body of a tile, while the other
            elements stay in registers; None: copies have the order of their loops.
        skip: number of the element past whose border terms are left out, because they are zero there; None: none are.
    """

    loops: tuple[Loop, ...]
    stream: int | None = None
    skip: int | None = None

    @property
    def lanes(self) -> Loop | None:
        """The loop whose iterations are lanes."""
        return next((loop for loop in self.loops if loop.bind is Bind.LANES), None)

    def span(self, number: int) -> int | None:
        """Return how many places loop ``number`` walks: the step of the loop over its axis further out.

        None: all of an axis whose extent is known at run time only.
        """
        axis = self.loops[number].axis
        outer = [loop.step for loop in self.loops[:number] if loop.axis == axis]
        if outer:
            return outer[-1]
        return axis.extent if isinstance(axis.extent, int) else None


USUAL = 256
"""How long an axis is taken to be whose extent is known at run time only."""

_FAR = 1 << 40
"""Assumed distance between places whose distance is known at run time only."""


def usual_extent(axis: Var) -> int:
    """Return the extent of an axis, or one that schedules are chosen for where it is known at run time only."""
    return axis.extent if isinstance(axis.extent, int) else USUAL


def distance(address: Index, axis: Var) -> int:
    """Return how many elements lie between neighbours along an axis, which may be known at run time only."""
    step = address.coefficient(axis)
    return _FAR if step is None else abs(step)


def plain(axes: Sequence[Var]) -> Schedule:
    """Return the schedule that visits places in row-major order."""
    return Schedule(tuple(Loop(axis) for axis in axes))
