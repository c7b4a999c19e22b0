"""The loops of a schedule around its tiles.

What does not fill a step gets loops of its own, and so does what lies at a border, where reads may lie outside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.affine import Index, Var
from openinfer.loops import Bind, For, If
from openinfer.lower.placed import widths
from openinfer.lower.tiles import Tile
from openinfer.schedule.borders import MOST_BORDERS

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
        if not isinstance(axis.extent, int):
            return self._varying(number, inner, at, left, body)
        statements: tuple[Statement, ...] = ()
        for start, trips, step in self._pieces(number, at, left):
            size = {**left, axis: step}
            if trips == 1:
                statements += self._nested(inner, {**at, axis: at[axis] + start}, size, body)
                continue
            var = Var(self._name(number), trips)
            inside = {**at, axis: at[axis] + start + var * step}
            nested = self._nested(inner, inside, size, body)
            test = self._placed.test_along(axis, inside, size)
            if nested:
                statements += (For(var, Bind.SERIAL, nested if test is None else (If((test,), nested),)),)
        return statements

    def _varying(
        self,
        number: int,
        inner: Sequence[int],
        at: Mapping[Var, Index],
        left: Mapping[Var, int],
        body: Callable[[Mapping[Var, Index], Mapping[Var, int]], tuple[Statement, ...]],
    ) -> tuple[Statement, ...]:
        """Return loops over an axis whose extent is known at run time only: whole steps, lanes, single places."""
        loop, lanes = self._loops[number], self._placed.schedule.lanes
        extent, in_lanes = Index.of(loop.axis.extent or 0), lanes is not None and lanes.axis == loop.axis
        steps = [loop.step, *([self._placed.lanes] if in_lanes else [])]
        # Terms that fill no lanes are added after the lanes (`PlacedStage.terms_without_lanes`).
        steps += [] if in_lanes and self._placed.is_across else [1]
        statements: tuple[Statement, ...] = ()
        begin = Index()
        for step in dict.fromkeys(steps):
            end = extent // step
            var = Var(self._name(number), end - begin // step)
            inside = {**at, loop.axis: begin + var * step}
            nested = self._nested(inner, inside, {**left, loop.axis: step}, body)
            statements += (For(var, Bind.SERIAL, nested),) if nested else ()
            begin = end * step
        return statements

    def _pieces(self, number: int, at: Mapping[Var, Index], left: Mapping[Var, int]) -> Iterator[tuple[int, int, int]]:
        """Yield (first place, iterations, places of one) of the loops that a loop of the schedule becomes."""
        loop = self._loops[number]
        lanes = self._placed.schedule.lanes
        for begin, end in self._parts(number, at, left):
            whole, rest = divmod(end - begin, loop.step)
            inside = range(whole)
            if self._has_borders(loop.axis) and whole <= MOST_BORDERS:
                inside = range(0)
            elif peeled := self._inside(number, at, left):
                inside = range(-(-peeled[0] // loop.step), min(peeled[1] // loop.step, whole))
            front = inside.start if inside else whole
            yield from ((begin + loop.step * tile, 1, loop.step) for tile in range(front))
            if inside:
                yield begin + loop.step * front, len(inside), loop.step
                yield from ((begin + loop.step * tile, 1, loop.step) for tile in range(inside.stop, whole))
            if not rest:
                continue
            begin += whole * loop.step
            if lanes is None or lanes.axis != loop.axis:
                yield begin, 1, rest
                continue
            for start, size in _lane_pieces(rest, self._placed.lanes, is_across=self._placed.is_across):
                yield begin + start, 1, size

    def _parts(self, number: int, at: Mapping[Var, Index], left: Mapping[Var, int]) -> Iterator[tuple[int, int]]:
        """Yield the parts of an axis: those at its borders, where reads may lie outside, and the rest.

        Loops over folded axes that leave out what lies outside do so at the borders and between them.
        """
        axis = self._loops[number].axis
        is_whole = number not in self._own or any(loop.axis == axis for loop in self._loops[:number])
        if is_whole or self._placed.is_tested_along(axis) or self._inside(number, at, left):
            yield 0, left[axis]
            return
        first, end = self._placed.interior(axis, at, left)
        for part in ((0, first), (first, end), (end, left[axis])):
            if part[0] < part[1]:
                yield part

    def _inside(self, number: int, at: Mapping[Var, Index], left: Mapping[Var, int]) -> tuple[int, int] | None:
        """Return the places inside of an image where each tile at its border has a body of its own.

        Such a tile has no statement for what it would read past the border: its place is known. None: tiles along the
        axis have one place, there are no borders, or only few tiles between them.
        """
        loop, axis = self._loops[number], self._loops[number].axis
        if (
            loop.step == 1
            or number not in self._own
            or not self._placed.is_left_out_along(axis)
            or at[axis].variables()
        ):
            return None
        first, end = self._placed.interior(axis, at, left)
        tiles = end // loop.step - -(-first // loop.step)
        return (first, end) if (first, end) != (0, left[axis]) and tiles > 0 else None

    def _has_borders(self, axis: Var) -> bool:
        """Whether tiles along an axis differ by the terms that are left out of the copies along a folded one."""
        copied = {loop.axis for loop in self._loops if loop.is_copied}
        return axis not in self._placed.folded and any(
            axis in test.index.variables() and copied & test.index.variables() & set(self._placed.folded)
            for test in self._placed.tests_of_terms()
        )

    def _name(self, number: int) -> str:
        """Return the name of a loop variable: that of its axis, with a number if several loops iterate over the
        axis."""
        axis = self._loops[number].axis
        walks = [depth for depth, loop in enumerate(self._loops) if loop.axis == axis]
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
    """Return how many places of an axis there are; 1 where a loop of its own takes one after the other."""
    return axis.extent if isinstance(axis.extent, int) else 1
