"""A stage in its buffers, under a schedule: what all of its tiles have in common."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var, Within
from openinfer.compute import Order, Read
from openinfer.loops import Bind
from openinfer.lower.accesses import access, counted_from
from openinfer.lower.copies import Copy
from openinfer.lower.nests import nest
from openinfer.schedule.borders import LEAST_INSIDE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from openinfer.arch import TargetInfo
    from openinfer.compute import Stage
    from openinfer.layout import Layout
    from openinfer.loops import Buffer, Statement
    from openinfer.lower.accesses import Access
    from openinfer.schedule import Schedule

NARROWEST = 4
"""Fewest lanes of what does not fill a vector register; fewer places are copies of scalar statements."""


@dataclass(frozen=True, slots=True)
class PlacedStage:
    """A stage, its schedule, and where its tensors lie.

    Attributes:
        accesses: its elements, by number.
        buffer, layout: where it stores.
        fused: whether products of floats are added by a fused multiply-add.
        origin: the place that lies first in the buffer, where that holds a part of the tensor.
    """

    stage: Stage
    schedule: Schedule
    accesses: Mapping[int, Access]
    buffer: Buffer
    layout: Layout
    fused: bool
    origin: tuple[Index, ...] = ()

    @property
    def folded(self) -> tuple[Var, ...]:
        return () if self.stage.fold is None else self.stage.fold.axes

    @property
    def is_across(self) -> bool:
        """Whether lanes hold partial totals of one place."""
        loop = self.schedule.lanes
        return loop is not None and loop.axis in self.folded

    @property
    def is_joined(self) -> bool:
        """Whether lanes are added to one total in each iteration."""
        loop = self.schedule.lanes
        return loop is not None and loop.joined

    @property
    def lanes(self) -> int:
        """Lanes of a whole vector register."""
        loop = self.schedule.lanes
        return 1 if loop is None else self._span(self.schedule.loops.index(loop))

    def lanes_of(self, left: Mapping[Var, int]) -> int:
        """Return how many lanes a tile has: all of them, or as many as there are places left."""
        loop = self.schedule.lanes
        if loop is None or self.is_across or left[loop.axis] % self.lanes == 0:
            return self.lanes
        return left[loop.axis] if left[loop.axis] in widths(self.lanes) else 1

    def tests_of_terms(self) -> tuple[Within, ...]:
        """Return what has to hold for a term that is not left out."""
        number = self.schedule.skip
        return () if number is None else tuple(guard.test for guard in self.accesses[number].guards)

    def test_along(self, tap: Var, at: Mapping[Var, Index], left: Mapping[Var, int]) -> Within | None:
        """Return the test of all terms of a tile at a place of a folded axis.

        None: it holds, terms differ, or there are too few of them (`openinfer.schedule.borders.LEAST_INSIDE`).
        """
        lanes = self.schedule.lanes
        for test in self.tests_of_terms() if self._is_tested(tap) else ():
            axes = test.index.variables()
            if tap not in axes or any(left[axis] != 1 for axis in axes) or (lanes is not None and lanes.axis in axes):
                continue
            around = Within(test.index.substituted(at), test.extent)
            if not around.is_certain:
                return around
        return None

    def tests_around(self, at: Mapping[Var, Index], left: Mapping[Var, int]) -> frozenset[Within]:
        """Return the tests of all loops around the terms of a tile: where they run, these hold."""
        tests = (self.test_along(tap, at, left) for tap in self.folded)
        return frozenset(test for test in tests if test is not None)

    def is_tested_along(self, axis: Var) -> bool:
        """Whether loops over folded axes test all that reads along an axis, of which each tile has one place."""
        loops = [loop for loop in self.schedule.loops if loop.axis == axis]
        if len(loops) != 1 or loops[0].step != 1 or loops[0].bind is not Bind.SERIAL:
            return False
        for number, accessed in self.accesses.items():
            for variables in (guard.test.index.variables() for guard in accessed.guards):
                if axis not in variables:
                    continue
                taps = variables - {axis}
                if number != self.schedule.skip or len(taps) != 1 or not all(map(self._is_tested, taps)):
                    return False
        return True

    def is_left_out_along(self, axis: Var) -> bool:
        """Whether all reads that lie past a border along an axis are of written-out terms that are left out there."""
        copied = {loop.axis for loop in self.schedule.loops if loop.is_copied}
        lanes = self.schedule.lanes
        if lanes is None or lanes.axis == axis or axis in self.folded:
            return False
        tests = [
            (n, guard.test.index.variables()) for n, accessed in self.accesses.items() for guard in accessed.guards
        ]
        along = [(number, variables) for number, variables in tests if axis in variables]
        return bool(along) and all(n == self.schedule.skip and variables - {axis} <= copied for n, variables in along)

    def _is_tested(self, tap: Var) -> bool:
        """Whether the loop over a folded axis leaves out iterations whose terms are zero for certain."""
        loops = self.schedule.loops
        walks = [number for number, loop in enumerate(loops) if loop.axis == tap]
        if self.schedule.skip is None or tap not in self.folded or len(walks) != 1 or tap.extent == 1:
            return False
        (number,) = walks
        inside = prod(
            self._span(depth) // loop.step
            for depth, loop in enumerate(loops)
            if loop.bind is Bind.UNROLL or (loop.bind is Bind.SERIAL and loop.axis in self.folded and depth > number)
        )
        return loops[number].step == 1 and loops[number].bind is Bind.SERIAL and inside >= LEAST_INSIDE

    def longest(self, axis: Var) -> int:
        """Return the extent of an axis, or how many places one step covers where it is known at run time only."""
        if isinstance(axis.extent, int):
            return axis.extent
        return max(loop.step for loop in self.schedule.loops if loop.axis == axis)

    def address(self, values: Mapping[Var, Index]) -> Index:
        """Return where the stage stores."""
        return self.layout.address(
            counted_from(tuple(index.substituted(values) for index in self.stage.at), self.origin)
        )

    def copies(self, numbers: Sequence[int], left: Mapping[Var, int], *, in_lanes: bool) -> list[Copy]:
        """Return the copies of some loops that begin within the places that are left."""
        combinations: list[dict[int, int]] = [{}]
        for number in numbers:
            loop = self.schedule.loops[number]
            is_one = loop.bind is Bind.LANES and in_lanes
            steps = (0,) if is_one else range(0, self._span(number), loop.step)
            combinations = [{**offsets, number: offset} for offsets in combinations for offset in steps]
        copies = [Copy(offsets, self._moves(offsets)) for offsets in combinations]
        return [copy for copy in copies if all(move < left[axis] for axis, move in copy.moves.items())]

    def terms_without_lanes(
        self, body: Callable[[Mapping[Var, Index]], tuple[Statement, ...]]
    ) -> tuple[Statement, ...]:
        """Return the remainder loops over the terms that fill no lanes, if lanes are along a folded axis."""
        loop = self.schedule.lanes
        if loop is None or loop.axis.extent is None:
            return ()
        extent = Index.of(loop.axis.extent)
        whole = extent // self.lanes * self.lanes
        rest = extent - whole
        if rest == Index():
            return ()
        left = rest if rest.constant is None else rest.constant
        variables = {axis: Var(axis.name, left if axis == loop.axis else axis.extent) for axis in self.folded}
        at = {axis: Index.of(var) for axis, var in variables.items()}
        at[loop.axis] = at[loop.axis] + whole
        return nest(list(variables.values()), body(at))

    def padded(self) -> int | None:
        """Return the extent of the axis in lanes, rounded up to whole lanes if every tensor has room for it.

        What lies past the extent is read and written like any other place: nobody reads a tensor's padding as data.
        Only a stage that writes the last elements of the tensor may write past them: past those of another lie
        elements that other stages write.
        """
        loop = self.schedule.lanes
        if loop is None or self.is_across or not isinstance(loop.axis.extent, int):
            return None
        extent = -(-loop.axis.extent // self.lanes) * self.lanes
        wide = {loop.axis: Index.of(Var(loop.axis.name, extent))}
        dims = [dim for dim, index in enumerate(self.stage.at) if loop.axis in index.variables()]
        if self.layout.halo and any(self.layout.halo[dim] != (0, 0) for dim in dims):
            return None
        if not _has_room(self.layout, self.stage.at, loop.axis, wide):
            return None
        end = {loop.axis: Index.of(loop.axis.extent)}
        if any(self.stage.at[dim].substituted(end) != self.layout.shape[dim] for dim in dims):
            return None
        for accessed in self.accesses.values():
            element = accessed.element
            if any(loop.axis in guard.test.index.variables() for guard in accessed.guards):
                return None
            if not isinstance(element, Read) or accessed.layout is None:
                continue
            if not _has_room(accessed.layout, element.at, loop.axis, wide):
                return None
        return extent

    def interior(self, axis: Var, at: Mapping[Var, Index], left: Mapping[Var, int]) -> tuple[int, int]:
        """Return the part of an axis, from its first place up to its end, where no read needs a test along it.

        All of it where there is no such part, or where it is not known.
        """
        first, end, extent = 0, left[axis], left[axis]
        walked = {other: at[other] + Var(f"{other.name}'", left[other]) for other in at if other != axis}
        for accessed in self.accesses.values():
            for guard in accessed.guards:
                slope = guard.test.index.coefficient(axis)
                rest = guard.test.index.substituted({**walked, axis: at[axis]}).interval
                size = guard.test.extent.constant
                if not slope or slope < 0 or rest.low is None or rest.high is None or size is None:
                    continue
                before, after = guard.halo
                first = max(first, -((before + rest.low) // slope))
                end = min(end, (size + after - 1 - rest.high) // slope + 1)
        return (first, end) if first < end else (0, extent)

    def _moves(self, offsets: Mapping[int, int]) -> dict[Var, int]:
        moves: dict[Var, int] = {}
        for number, offset in offsets.items():
            axis = self.schedule.loops[number].axis
            moves[axis] = moves.get(axis, 0) + offset
        return moves

    def _span(self, number: int) -> int:
        span = self.schedule.span(number)
        if span is None:
            axis = self.schedule.loops[number].axis
            raise TypeError(f"{axis.name} is walked in copies or lanes, but its extent {axis.extent} is not a constant")
        return span


def placed(
    stage: Stage,
    schedule: Schedule,
    buffers: Mapping[str, Buffer],
    layouts: Mapping[str, Layout],
    target: TargetInfo | None,
    origins: Mapping[str, tuple[Index, ...]] | None = None,
) -> PlacedStage:
    """Return a stage in its buffers. ``origins`` has the first places of tensors of which buffers hold a part."""
    is_free = stage.fold is not None and stage.fold.order is Order.ANY
    return PlacedStage(
        stage,
        schedule,
        {number: access(element, buffers, layouts, origins) for number, element in enumerate(stage.elements)},
        buffers[stage.tensor],
        layouts[stage.tensor],
        is_free and target is not None and target.fma,
        (origins or {}).get(stage.tensor, ()),
    )


def widths(lanes: int) -> Iterator[int]:
    """Yield the numbers of lanes below a whole vector register, the largest first."""
    lanes //= 2
    while lanes >= NARROWEST:
        yield lanes
        lanes //= 2


def _has_room(layout: Layout, at: Sequence[Index], axis: Var, wide: Mapping[Var, Index]) -> bool:
    for dim, index in enumerate(at):
        if axis in index.variables():
            room = layout.room(dim)
            if room is None or not index.substituted(wide).is_within(0, room):
                return False
    return True
