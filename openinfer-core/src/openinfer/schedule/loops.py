"""A schedule is a list of loops. Splitting and reordering are both in it: an axis may be walked by several loops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.affine import Var


@dataclass(frozen=True, slots=True)
class Loop:
    """Walk an axis in steps, inside of the step of the loop over the same axis further out.

    Attributes:
        step: places of the axis that one iteration covers; 1 in the innermost loop over an axis.
    """

    axis: Var
    step: int = 1


@dataclass(frozen=True, slots=True)
class Schedule:
    """Loops over the axes of a stage, outermost first. What does not fill a step gets loops of its own."""

    loops: tuple[Loop, ...]


def plain(axes: Sequence[Var]) -> Schedule:
    """Return the schedule that visits places in row-major order."""
    return Schedule(tuple(Loop(axis) for axis in axes))
