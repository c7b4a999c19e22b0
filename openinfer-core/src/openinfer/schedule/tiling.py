"""Choosing tiles for a fold: the axis in lanes, copies that share loads, partial totals, all by cost."""

from __future__ import annotations

from heapq import nsmallest
from itertools import combinations, product
from math import ceil, prod
from typing import TYPE_CHECKING

from openinfer.compute import Order, Read
from openinfer.expr.linear import linearise
from openinfer.loops import Bind
from openinfer.schedule.cost import LATENCY, Operand, Tiling, Work, cycles, rate, registers
from openinfer.schedule.folds import has_parts, is_tileable, joining
from openinfer.schedule.loops import Loop, Schedule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.affine import Index, Var
    from openinfer.arch import TargetInfo
    from openinfer.compute import Fold, Stage
    from openinfer.layout import Layout

LONGEST_BODY = 256
"""Most statements of the body of a tile."""

LONG_BODY = 4000
"""Statements of a body that make it cost twice: shorter source is preferred among equals."""

LIKELY = 24
"""Tilings whose rests are accounted for."""

WIDEST_WINDOW = 8
"""Most places of a folded axis that is written out."""


def tiled(
    stage: Stage, layouts: Mapping[str, Layout], target: TargetInfo, lanes: int, within: Mapping[Var, int]
) -> Schedule | None:
    """Return the schedule of a fold in tiles that takes the least time; None: no axis can be in lanes.

    ``lanes`` is the number of elements in a vector register, ``within`` how many places of an axis are computed at a
    time where that is not its extent. Operands without a layout are packed for the schedule.
    """
    fold = stage.fold
    if fold is None or not is_tileable(fold):
        return None
    search = _Search(stage, fold, layouts, target, lanes, within)
    # What whole tiles cost for each place decides which tilings are worth a full account of their rests.
    likely = nsmallest(LIKELY, search.tilings(), key=search.rate)
    found = min(likely, key=search.key, default=None)
    return None if found is None else search.schedule(found)


class _Search:
    def __init__(
        self,
        stage: Stage,
        fold: Fold,
        layouts: Mapping[str, Layout],
        target: TargetInfo,
        lanes: int,
        within: Mapping[Var, int],
    ) -> None:
        self._stage = stage
        self._fold = fold
        self._layouts = layouts
        self._target = target
        self._lanes = lanes
        self._store = layouts[stage.tensor].address(stage.at)
        every = {axis: axis.extent for axis in (*stage.axes, *fold.axes) if isinstance(axis.extent, int)}
        self._extents = {**every, **within}
        terms = [linearise(total.term) for total in fold.totals]
        self._read = sorted({n for term in terms for n in term.inputs if isinstance(stage.elements[n], Read)})
        steps = sum(1 for term in terms for i in term.instructions if i.function not in ("input", "literal", "cast"))
        is_fused = target.fma and fold.order is Order.ANY and joining(fold.totals[0]) == "add"
        self._works: dict[Var, Work] = {}
        self._instructions = max(1, steps + len(fold.totals) - (1 if is_fused and steps else 0))

    def rate(self, tiling: Tiling) -> float:
        """Return the cycles of a whole tile for each place that it computes."""
        return rate(self._work(tiling.lane), tiling, self._target) * _length(tiling)

    def key(self, tiling: Tiling) -> tuple[float, int]:
        return (cycles(self._work(tiling.lane), tiling, self._target) * _length(tiling), -tiling.accumulators)

    def tilings(self) -> Iterator[Tiling]:
        """Yield the tilings that fit the registers of the target."""
        for lane in self._lane_axes():
            work = self._work(lane)
            every_part = list(self._parts(lane))
            for taps, tile in product(self._taps(lane), self._tiles(lane)):
                yield from self._fitting(work, taps, tile, every_part)

    def _fitting(
        self, work: Work, taps: Mapping[Var, int], tile: Mapping[Var, int], every_part: Sequence[Mapping[Var, int]]
    ) -> Iterator[Tiling]:
        """Yield the tilings of one tile: partial totals only where its totals do not hide the latency of additions."""
        is_enough = prod(tile.values()) >= LATENCY * self._target.multiply_adds
        for parts in every_part[:1] if is_enough else every_part:
            if parts.keys() & taps.keys():
                continue
            for stream in self._streams(work, taps):
                tiling = Tiling(work.lane, self._lanes, tile, taps, parts, stream)
                if tiling.statements <= LONGEST_BODY and registers(work, tiling) <= self._target.registers:
                    yield tiling

    def schedule(self, tiling: Tiling) -> Schedule:
        """Return the loops of a tiling."""
        lane, lanes = tiling.lane, tiling.lanes
        copied = {**tiling.tile, **tiling.taps, **tiling.parts}
        operands = self._work(lane).operands
        own = sorted(self._stage.axes, key=lambda axis: -abs(self._store.coefficient(axis) or 0))
        shared = [a for a in own if a != lane and any(not operand.varies(a) for operand in operands)]
        alone = [a for a in own if a != lane and a not in shared]
        outer = [*alone, *([lane] if lane in own else []), *shared]
        folded = [axis for axis in self._folded_order() if axis not in tiling.taps]
        serial = [Loop(axis, copied.get(axis, 1) * (lanes if axis == lane else 1)) for axis in (*outer, *folded)]
        unrolled = [Loop(axis, 1, Bind.UNROLL) for axis in tiling.taps]
        unrolled += [Loop(a, lanes if a == lane else 1, Bind.UNROLL, partial=True) for a in tiling.parts]
        spread = [Loop(a, 1, Bind.UNROLL) for a in own if a != lane and tiling.tile.get(a, 1) > 1]
        if tiling.tile.get(lane, 1) > 1:
            blocks = Loop(lane, lanes, Bind.UNROLL)
            pixels = [count for axis, count in tiling.tile.items() if axis != lane]
            # The operand with more elements passes by: the loop over its copies lies outside.
            spread = [*spread, blocks] if max(pixels, default=1) >= tiling.tile[lane] else [blocks, *spread]
        return Schedule((*serial, *unrolled, *spread, Loop(lane, 1, Bind.LANES)), tiling.stream)

    def _work(self, lane: Var) -> Work:
        if lane not in self._works:
            operands = tuple(self._operand(number, lane) for number in self._read)
            itemsize = max(1, self._target.vector_nbytes // self._lanes)
            self._works[lane] = Work(
                lane, operands, self._instructions, self._extents, self._fold.axes, itemsize, len(self._fold.totals)
            )
        return self._works[lane]

    def _operand(self, number: int, lane: Var) -> Operand:
        read = self._stage.elements[number]
        if not isinstance(read, Read):
            raise TypeError(f"element {number} is not read")
        layout = self._layouts.get(read.tensor)
        if layout is None:
            return Operand(number, read.at, 1 if any(lane in i.variables() for i in read.at) else 0, is_packed=True)
        step = layout.address(read.at).coefficient(lane)
        return Operand(number, read.at, step if step in (0, 1) else None, is_packed=False)

    def _lane_axes(self) -> Iterator[Var]:
        for axis in self._stage.axes:
            if self._store.coefficient(axis) == 1 and self._extents[axis] > 1:
                yield axis
        if has_parts(self._fold):
            for axis in self._fold.axes:
                steps = [operand.lane_step for operand in self._work(axis).operands]
                if None not in steps and 1 in steps and self._extents[axis] >= self._lanes:
                    yield axis

    def _tiles(self, lane: Var) -> Iterator[dict[Var, int]]:
        """Yield how many copies there may be along the axis in lanes and the two innermost others."""
        most = self._target.registers
        own = sorted(self._stage.axes, key=lambda axis: abs(self._store.coefficient(axis) or 0))
        near = [axis for axis in own if axis != lane and self._extents[axis] > 1][:2]
        counts = [
            _columns(self._extents[axis], most) if not place else _rows(self._extents[axis])
            for place, axis in enumerate(near)
        ]
        if lane not in self._fold.axes:
            near = [lane, *near]
            counts = [_blocks(ceil(self._extents[lane] / self._lanes)), *counts]
        # Fewer totals than hide the latency of an addition are worth a look only where there are no more.
        least = min(LATENCY * self._target.multiply_adds, prod(map(max, counts)))
        for found in product(*counts):
            if least <= prod(found) < most:
                yield dict(zip(near, found, strict=True))

    def _taps(self, lane: Var) -> Iterator[dict[Var, int]]:
        """Yield folded axes that are written out: windows, whose places several copies share."""
        yield {}
        short = [a for a in self._fold.axes if a != lane and 1 < self._extents[a] <= WIDEST_WINDOW]
        if self._fold.order is Order.SEQUENTIAL:
            # Terms keep their order: only the last axes are written out.
            for number in range(len(self._fold.axes)):
                last = self._fold.axes[number:]
                if set(last) <= set(short):
                    yield {axis: self._extents[axis] for axis in last}
            return
        windows = [axis for axis in short if self._is_window(axis)]
        for count in (1, 2):
            for chosen in combinations(windows, count):
                yield {axis: self._extents[axis] for axis in chosen}

    def _is_window(self, axis: Var) -> bool:
        """Return whether a folded axis walks a dimension together with an axis that is not."""
        reads = [self._stage.elements[number] for number in self._read]
        return any(
            axis in index.variables() and len(index.variables()) > 1
            for read in reads
            if isinstance(read, Read)
            for index in read.at
        )

    def _parts(self, lane: Var) -> Iterator[dict[Var, int]]:
        yield {}
        if not has_parts(self._fold):
            return
        axis = lane if lane in self._fold.axes else self._folded_order()[-1]
        extent = self._extents[axis] // (self._lanes if axis == lane else 1)
        # More totals than the latency of an addition hides are of no use.
        for count in (2, 4, LATENCY * self._target.multiply_adds):
            if count <= extent:
                yield {axis: count}

    def _streams(self, work: Work, taps: Mapping[Var, int]) -> Iterator[int | None]:
        yield None
        if taps and self._fold.order is Order.ANY:
            yield from (o.number for o in work.operands if not o.is_packed and any(o.varies(tap) for tap in taps))

    def _folded_order(self) -> Sequence[Var]:
        """Return folded axes, the one along which an operand is contiguous last, where the order is free."""
        if self._fold.order is Order.SEQUENTIAL:
            return self._fold.axes
        addresses = [self._address(number) for number in self._read]
        strides = {
            axis: min((abs(a.coefficient(axis) or 0) or 1 << 30 for a in addresses if a is not None), default=1 << 30)
            for axis in self._fold.axes
        }
        return sorted(self._fold.axes, key=lambda axis: -strides[axis])

    def _address(self, number: int) -> Index | None:
        read = self._stage.elements[number]
        if not isinstance(read, Read) or read.tensor not in self._layouts:
            return None
        return self._layouts[read.tensor].address(read.at)


def _length(tiling: Tiling) -> float:
    """Return by how much a long body is held to be slower."""
    return 1 + tiling.statements / LONG_BODY


def _columns(extent: int, most: int) -> list[int]:
    parts = {-(-extent // count) for count in (1, 2, 3, 4)}
    return sorted(count for count in {*parts, 1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 24} if count <= min(extent, most))


def _rows(extent: int) -> list[int]:
    return [count for count in (1, 2, 3, 4, 5) if count <= extent]


def _blocks(count: int) -> list[int]:
    return [blocks for blocks in (1, 2, 3, 4, 5, 6, 8) if blocks <= count]
