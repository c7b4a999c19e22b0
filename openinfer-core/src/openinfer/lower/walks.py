"""The loops of a schedule around its tiles.

What does not fill a step gets loops of its own, and so does what lies at a border, where reads may lie outside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.affine import Index, Var
from openinfer.loops import Bind, For
from openinfer.lower.placed import widths
from openinfer.lower.tiles import Tile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from openinfer.loops import Statement
    from openinfer.lower.names import Names
    from openinfer.lower.placed import PlacedStage


def walked(
    stage: PlacedStage,
    names: Names,
    at: Mapping[Var, Index] | None = None,
    left: Mapping[Var, int] | None = None,
) -> tuple[Statement, ...]:
    """Return the loops of a stage.

    ``at`` and ``left`` have the axes of which only a part is computed: its first place and its extent.
    """
    return _Walk(stage, names).stage(at or {}, left or {})


class _Walk:
    def __init__(self, stage: PlacedStage, names: Names) -> None:
        self._placed = stage
        self._names = names
        self._loops = stage.schedule.loops
        serial = [number for number, loop in enumerate(self._loops) if loop.bind is Bind.SERIAL]
        self._own = [number for number in serial if self._loops[number].axis not in stage.folded]
        self._folded = [number for number in serial if self._loops[number].axis in stage.folded]

    def stage(self, at: Mapping[Var, Index], left: Mapping[Var, int]) -> tuple[Statement, ...]:
        placed = self._placed
        axes = (*placed.stage.axes, *placed.folded)
        extents = {axis: _extent(axis) for axis in axes}
        if any(extents[axis] == 0 for axis in placed.stage.axes):
            return ()
        lanes = placed.schedule.lanes
        padded = placed.padded()
        if lanes is not None and padded is not None and lanes.axis not in left:
            extents[lanes.axis] = padded
        start = {axis: at.get(axis, Index()) for axis in axes}
        return self._nested(self._own, start, {**extents, **left}, self._tile)

    def _tile(self, at: Mapping[Var, Index], left: Mapping[Var, int]) -> tuple[Statement, ...]:
        tile = Tile(self._placed, self._names, at, left)
        return tile.statements(lambda body: self._nested(self._folded, at, left, body))

    def _nested(
        self,
        numbers: Sequence[int],
        at: Mapping[Var, Index],
        left: Mapping[Var, int],
        body: Callable[[Mapping[Var, Index], Mapping[Var, int]], tuple[Statement, ...]],
    ) -> tuple[Statement, ...]:
        """Return serial loops around a body, which is made for each part of the places that has another form."""
        if not numbers:
            return body(at, left)
        number, *inner = numbers
        axis = self._loops[number].axis
        statements: tuple[Statement, ...] = ()
        for start, trips, step in self._pieces(number, at, left):
            size = {**left, axis: step}
            if trips == 1:
                statements += self._nested(inner, {**at, axis: at[axis] + start}, size, body)
                continue
            var = Var(self._name(number), trips)
            place = {**at, axis: at[axis] + start + var * step}
            statements += (For(var, Bind.SERIAL, self._nested(inner, place, size, body)),)
        return statements

    def _pieces(self, number: int, at: Mapping[Var, Index], left: Mapping[Var, int]) -> Iterator[tuple[int, int, int]]:
        """Yield (first place, iterations, places of one) of the loops that a loop of the schedule becomes."""
        loop = self._loops[number]
        lanes = self._placed.schedule.lanes
        for begin, end in self._parts(number, at, left):
            whole, rest = divmod(end - begin, loop.step)
            if whole:
                yield begin, whole, loop.step
            if not rest:
                continue
            begin += whole * loop.step
            if lanes is None or lanes.axis != loop.axis:
                yield begin, 1, rest
                continue
            for start, size in _lane_pieces(rest, self._placed.lanes, is_across=self._placed.is_across):
                yield begin + start, 1, size

    def _parts(self, number: int, at: Mapping[Var, Index], left: Mapping[Var, int]) -> Iterator[tuple[int, int]]:
        """Yield the parts of an axis: those at its borders, where reads may lie outside, and the rest."""
        axis = self._loops[number].axis
        if number not in self._own or any(loop.axis == axis for loop in self._loops[:number]):
            yield 0, left[axis]
            return
        first, end = self._placed.interior(axis, at, left)
        for part in ((0, first), (first, end), (end, left[axis])):
            if part[0] < part[1]:
                yield part

    def _name(self, number: int) -> str:
        """Return the name of a loop variable: that of its axis, numbered where several loops walk it."""
        axis = self._loops[number].axis
        walks = [place for place, loop in enumerate(self._loops) if loop.axis == axis]
        return axis.name if len(walks) == 1 else f"{axis.name}_{walks.index(number)}"


def _lane_pieces(rest: int, lanes: int, *, is_across: bool) -> Iterator[tuple[int, int]]:
    """Yield (first place, places) of what is left of an axis in lanes: whole registers, then ever fewer lanes."""
    start = rest - rest % lanes
    if start:
        yield 0, start
    if is_across:
        return
    for width in widths(lanes):
        if rest - start >= width:
            yield start, width
            start += width
    if start < rest:
        yield start, rest - start


def _extent(axis: Var) -> int:
    if not isinstance(axis.extent, int):
        raise TypeError(f"{axis.name} is walked in steps, but its extent {axis.extent} is known at run time only")
    return axis.extent
