"""Loop nests around statements, as a schedule says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.affine import Index, Var
from openinfer.loops import Bind, For
from openinfer.loops.substitution import substituted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.loops import Statement
    from openinfer.schedule import Loop, Schedule


def nest(axes: Sequence[Var], body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Return loops over axes in their order around statements; nothing where an axis is empty."""
    if not body or any(axis.extent == 0 for axis in axes):
        return ()
    for axis in reversed(axes):
        body = (For(axis, Bind.SERIAL, body),)
    return body


def scheduled(schedule: Schedule, levels: Sequence[tuple[Statement, ...]]) -> tuple[Statement, ...]:
    """Return the loops of a schedule around statements.

    ``levels[n]`` is done once for each place of the first n axes, or in the innermost loop where several loops walk an
    axis.
    """
    axes = list(dict.fromkeys(loop.axis for loop in schedule.loops))
    if any(axis.extent == 0 for axis in axes):
        return ()
    if len(axes) == len(schedule.loops):
        body = levels[-1]
        for number in reversed(range(len(axes))):
            body = (*levels[number], *nest(axes[number : number + 1], body))
        return body
    body = tuple(statement for level in levels for statement in level)
    return _Walk(schedule, body).loops(0, {axis: Index() for axis in axes}, {axis: _extent(axis) for axis in axes})


def _extent(axis: Var) -> int:
    if not isinstance(axis.extent, int):
        raise TypeError(f"{axis.name} is walked in steps, but its extent {axis.extent} is known at run time only")
    return axis.extent


class _Walk:
    def __init__(self, schedule: Schedule, body: tuple[Statement, ...]) -> None:
        self._schedule = schedule
        self._body = body

    def loops(self, depth: int, at: Mapping[Var, Index], left: Mapping[Var, int]) -> tuple[Statement, ...]:
        """Return the loops from a depth on; ``left`` places of each axis, from ``at`` on, are to be visited."""
        if depth == len(self._schedule.loops):
            return substituted(self._body, at)
        loop = self._schedule.loops[depth]
        whole, rest = divmod(left[loop.axis], loop.step)
        statements: tuple[Statement, ...] = ()
        if whole:
            var = Var(self._name(depth), whole)
            inner = self.loops(depth + 1, *self._inside(loop, at, left, var * loop.step, loop.step))
            statements = (For(var, Bind.SERIAL, inner),)
        if rest:
            start = Index.of(whole * loop.step)
            statements = (*statements, *self.loops(depth + 1, *self._inside(loop, at, left, start, rest)))
        return statements

    def _inside(
        self, loop: Loop, at: Mapping[Var, Index], left: Mapping[Var, int], offset: Index, count: int
    ) -> tuple[Mapping[Var, Index], Mapping[Var, int]]:
        return {**at, loop.axis: at[loop.axis] + offset}, {**left, loop.axis: count}

    def _name(self, depth: int) -> str:
        """Return the name of a loop variable: that of its axis, with a number if several loops iterate over the
        axis."""
        axis = self._schedule.loops[depth].axis
        walks = [level for level, loop in enumerate(self._schedule.loops) if loop.axis == axis]
        return axis.name if len(walks) == 1 else f"{axis.name}_{walks.index(depth)}"
