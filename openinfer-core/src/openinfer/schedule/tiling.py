"""Choosing tiles for a fold: the axis in lanes, copies that share loads, partial totals, all by cost."""

from __future__ import annotations

from functools import cached_property
from heapq import nsmallest
from itertools import combinations, product
from math import ceil, prod
from typing import TYPE_CHECKING

from openinfer.affine import Var
from openinfer.compute import Order, Read
from openinfer.expr.linear import linearise
from openinfer.loops import Bind
from openinfer.schedule.borders import LEAST_INSIDE, MOST_BORDERS, MOST_KEPT, windows
from openinfer.schedule.candidates import (
    block_counts,
    bytes_of_words,
    column_counts,
    is_window,
    lane_steps,
    row_counts,
    tensor_of,
    variables_of,
)
from openinfer.schedule.cost import LATENCY, STORING, Operand, Tiling, Work, cycles, rate, registers
from openinfer.schedule.folds import has_parts, is_tileable, joining
from openinfer.schedule.loops import Loop, Schedule, distance

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.affine import Index
    from openinfer.arch import TargetInfo
    from openinfer.compute import Fold, Stage
    from openinfer.layout import Layout
    from openinfer.schedule.borders import Window

LONGEST_BODY = 128
"""Most statements of the body of a tile."""

LONG_BODY = 1500
"""Statements that make a stage cost twice: shorter source is preferred among equals."""

LONG_BODY_OF_FEW = 400
"""The same on microcontrollers, whose flash is small."""

MOST_AGAIN = 32
"""Most products of a loop over terms that is written out for its end alone."""

MOST_IN_ORDER = 64
"""The same on a core whose registers hold totals: its compiler is kept from reading several terms ahead."""

PRODUCT = 2
"""Instructions of a product and the sum that it is added to."""

LIKELY = 24
"""Tilings whose rests are accounted for."""

MOST_PARTS = 16
"""Most places of a folded axis whose number terms use, up to which it is always written out: the parts of a word."""

PAIRS = 2
"""Registers that the four bytes of a word fill as pairs of 16 bits, and instructions that widen them."""

WIDEST_WINDOW = 8
"""Most places of a folded axis that is written out."""


def tiled(
    stage: Stage,
    layouts: Mapping[str, Layout],
    target: TargetInfo,
    lanes: int,
    within: Mapping[Var, int],
    skip: int | None = None,
) -> Schedule | None:
    """Return the schedule of a fold in tiles that takes the least time; None: no axis can be in lanes.

    ``lanes`` is the number of elements in a vector register, ``within`` how many places of an axis are computed at a
    time where that is not its extent. Operands without a layout are packed for the schedule. Terms past the border of
    element ``skip`` may be left out.
    """
    fold = stage.fold
    if fold is None or not is_tileable(fold):
        return None
    search = _Search(stage, fold, layouts, target, lanes, within, skip)
    return next((search.schedule(tiling) for _, tiling in search.by_cost()), None)


def ranked(
    stage: Stage,
    layouts: Mapping[str, Layout],
    target: TargetInfo,
    lanes: int,
    skip: int | None = None,
    within: Mapping[Var, int] | None = None,
) -> list[tuple[float, Schedule]]:
    """Return the schedules that `tiled` compares, the best first, each with the cycles that the model gives it.

    Nothing where the stage has no tiles. The arguments are those of `tiled`.
    """
    fold = stage.fold
    if fold is None or not is_tileable(fold):
        return []
    search = _Search(stage, fold, layouts, target, lanes, within or {}, skip)
    return [(cycles, search.schedule(tiling)) for cycles, tiling in search.by_cost()]


def estimated(
    stage: Stage,
    layouts: Mapping[str, Layout],
    target: TargetInfo,
    lanes: int,
    schedule: Schedule,
    within: Mapping[Var, int] | None = None,
) -> float | None:
    """Return the cycles that the model gives a schedule of tiles; None: it has none, or no axis in lanes.

    The other arguments are those of `tiled`.
    """
    fold, lane = stage.fold, schedule.lanes
    if fold is None or lane is None or not is_tileable(fold):
        return None
    copies = {True: dict[Var, int](), False: dict[Var, int]()}
    for number, loop in enumerate(schedule.loops):
        if loop.bind is Bind.UNROLL:
            copies[loop.partial][loop.axis] = (schedule.span(number) or 1) // loop.step
    tile = {axis: count for axis, count in copies[False].items() if axis in stage.axes}
    taps = {axis: count for axis, count in copies[False].items() if axis in fold.axes}
    if lane.axis in stage.axes:
        tile = {lane.axis: 1, **tile}
    search = _Search(stage, fold, layouts, target, lanes, within or {}, schedule.skip)
    return search.cycles(search.tiling(lane.axis, tile, taps, copies[True], schedule.stream))


class _Search:
    def __init__(
        self,
        stage: Stage,
        fold: Fold,
        layouts: Mapping[str, Layout],
        target: TargetInfo,
        lanes: int,
        within: Mapping[Var, int],
        skip: int | None = None,
    ) -> None:
        self._stage = stage
        self._fold = fold
        self._layouts = layouts
        self._target = target.for_totals(fold.totals[0].dtype)
        self._lanes = lanes
        self._store = layouts[stage.tensor].address(stage.at)
        every = {axis: axis.extent for axis in stage.all_axes if isinstance(axis.extent, int)}
        self._extents = {**every, **within}
        terms = [linearise(total.term) for total in fold.totals]
        self._bytes = bytes_of_words(terms)
        others = {number for numbers in self._bytes.values() for number in numbers[1:]}
        read = {n for term in terms for n in term.inputs if isinstance(stage.elements[n], Read)}
        self._read = sorted(read - others)
        # What shifts parts of a word to their place is a constant in code that is written out.
        numbers = {var for n in {n for t in terms for n in t.inputs} for var in variables_of(stage.elements, n)}
        is_free = fold.order is Order.ANY
        self._written_out = [a for a in fold.axes if a in numbers and is_free and self._extents[a] <= MOST_PARTS]
        steps = sum(1 for term in terms for i in term.instructions if i.function not in ("input", "literal", "cast"))
        is_fused = target.fma and fold.order is Order.ANY and joining(fold.totals[0]) == "add"
        self._skip = skip
        slid = () if skip is None else windows(stage, skip, layouts[tensor_of(stage, skip)])
        self._windows = tuple(window for window in slid if window.axis not in within)
        self._works: dict[Var, Work] = {}
        functions = {i.function for term in terms for i in term.instructions}
        # What is done to the words before is done once for all terms that share them.
        self._pairs = "sdot4" in functions and target.dsp
        fused = 1 if is_fused and steps else 0
        # Compilers load what all written-out terms read ahead, for which a core without vectors has no registers.
        self._keeps_few = self._target.is_scalar and fold.totals[0].dtype.is_integer and not self._written_out
        self._instructions = (
            2 if self._pairs else 1 if "dot4" in functions else max(1, steps + len(fold.totals) - fused)
        )

    def likely(self) -> list[Tiling]:
        """Return the tilings that are worth a full account of their rests, by what whole tiles cost for each place."""
        by_parts = (nsmallest(LIKELY, self.tilings(part), key=self.rate) for part in (1, 2, 4, 8))
        return next(filter(None, by_parts), list[Tiling]())

    def rate(self, tiling: Tiling) -> float:
        """Return the cycles of a whole tile for each place that it computes."""
        return rate(self._work(tiling.lane), tiling, self._target) * self._length(tiling)

    def cycles(self, tiling: Tiling) -> float:
        """Return the cycles of all tiles."""
        return cycles(self._work(tiling.lane), tiling, self._target)

    def by_cost(self) -> list[tuple[float, Tiling]]:
        """Return likely tilings with their cycles, the best first; of equal ones that with most totals."""
        priced = [(self.cycles(tiling), tiling) for tiling in self.likely()]
        return sorted(priced, key=lambda pair: (pair[0] * self._length(pair[1]), -pair[1].accumulators))

    def _length(self, tiling: Tiling) -> float:
        """Return the factor by which long source is assumed to be slower: bodies of whole tiles and of rests."""
        written = prod(tiling.taps.values()) * prod(tiling.parts.values())
        for axis, copies in tiling.tile.items():
            if axis == tiling.lane:
                count = ceil(self._extents[axis] / tiling.lanes)
                written *= copies + count % copies
            elif all(window.axis != axis for window in self._windows):
                written *= copies + self._extents[axis] % copies
        for window in self._windows:
            written *= self._bodies(window, tiling)
        return 1 + written / (LONG_BODY_OF_FEW if self._target.is_scalar else LONG_BODY)

    def _bodies(self, window: Window, tiling: Tiling) -> int:
        """Return how many copies of one place are written along an axis with borders."""
        copies = tiling.tile.get(window.axis, 1)
        if window.axis != tiling.lane and self._is_tested(window, tiling.tile, tiling.taps, tiling.parts):
            return 1
        if self._is_peeled(window, tiling.lane, tiling.taps):
            whole, rest = divmod(sum(window.parts), copies)
            return copies * min(whole, len(window.parts)) + rest
        most = MOST_BORDERS if window.tap in tiling.taps else 1
        bodies = 0
        for count in window.parts:
            whole, rest = divmod(count, copies)
            bodies += copies * (whole if whole <= most else 1) + rest
        return bodies

    def _is_tested(
        self, window: Window, tile: Mapping[Var, int], taps: Mapping[Var, int], parts: Mapping[Var, int]
    ) -> bool:
        """Whether a serial loop over the taps of a window leaves out those that read past a border."""
        if tile.get(window.axis, 1) != 1 or window.tap in taps or window.tap in parts or window.share > MOST_KEPT:
            return False
        copies = prod(tile.values()) * prod(taps.values()) * prod(parts.values())
        return self._inside(window.tap, taps) * copies >= LEAST_INSIDE

    def _is_peeled(self, window: Window, lane: Var, taps: Mapping[Var, int]) -> bool:
        """Whether tiles at a border of an image without halo are written out, each without what lies past it."""
        return window.tap in taps and window.axis != lane and not any(window.halo)

    def tilings(self, part: int = 1) -> Iterator[Tiling]:
        """Yield the tilings that fit the registers, with a part of the totals that hide the latency of an addition."""
        for lane in self._lane_axes():
            work = self._work(lane)
            every_part = list(self._parts(lane))
            for taps, tile in product(self._taps(lane), self._tiles(lane, part)):
                yield from self._fitting(work, taps, tile, every_part)

    def _fitting(
        self, work: Work, taps: Mapping[Var, int], tile: Mapping[Var, int], every_part: Sequence[Mapping[Var, int]]
    ) -> Iterator[Tiling]:
        """Yield the tilings of one tile: partial totals only where its totals do not hide the latency of additions."""
        is_enough = prod(tile.values()) >= LATENCY * self._target.multiply_adds
        most = self._target.registers
        for parts in every_part[:1] if is_enough else every_part:
            if parts.keys() & taps.keys():
                continue
            for stream in self._streams(work, taps):
                if taps and stream is None and self._keeps_few:
                    continue
                tiling = self.tiling(work.lane, tile, taps, parts, stream)
                if tiling.statements <= LONGEST_BODY and registers(work, tiling, self._target) <= most:
                    yield tiling

    def tiling(
        self, lane: Var, tile: Mapping[Var, int], taps: Mapping[Var, int], parts: Mapping[Var, int], stream: int | None
    ) -> Tiling:
        """Return a tiling with what it leaves out."""
        borders = {
            window.axis: window.parts
            for window in self._windows
            if not self._is_peeled(window, lane, taps) and not self._is_tested(window, tile, taps, parts)
        }
        return Tiling(lane, self._lanes, tile, taps, parts, stream, *self._left(lane, tile, taps, parts), borders)

    def schedule(self, tiling: Tiling) -> Schedule:
        """Return the loops of a tiling."""
        lane, lanes = tiling.lane, tiling.lanes
        copied = {**tiling.tile, **tiling.taps, **tiling.parts}
        operands = self._work(lane).operands
        own = sorted(self._stage.axes, key=lambda axis: -distance(self._store, axis))
        shared = [a for a in own if a != lane and any(not operand.varies(a) for operand in operands)]
        alone = [a for a in own if a != lane and a not in shared]
        blocks = [lane] if lane in own else []
        # Blocks that share nothing follow one another by address; others stay while what they share is walked.
        is_apart = all(operand.varies(lane) for operand in operands)
        outer = [*alone, *shared, *blocks] if is_apart else [*alone, *blocks, *shared]
        folded = [axis for axis in self._folded_order if axis not in tiling.taps]
        again = self._again(tiling, folded)
        steps = {**copied, **again}
        serial = [Loop(axis, steps.get(axis, 1) * (lanes if axis == lane else 1)) for axis in (*outer, *folded)]
        unrolled = [Loop(axis, 1, Bind.UNROLL) for axis in (*again, *tiling.taps)]
        unrolled += [Loop(a, lanes if a == lane else 1, Bind.UNROLL, partial=True) for a in tiling.parts]
        spread = [Loop(a, 1, Bind.UNROLL) for a in own if a != lane and tiling.tile.get(a, 1) > 1]
        if tiling.tile.get(lane, 1) > 1:
            copies = Loop(lane, lanes, Bind.UNROLL)
            pixels = [count for axis, count in tiling.tile.items() if axis != lane]
            # The operand with more elements passes by: the loop over its copies lies outside.
            spread = [*spread, copies] if max(pixels, default=1) >= tiling.tile[lane] else [copies, *spread]
        loops = (*serial, *unrolled, *spread, Loop(lane, 1, Bind.LANES))
        return Schedule(loops, tiling.stream, self._skip if tiling.walked * tiling.kept < 1 else None)

    def _again(self, tiling: Tiling, folded: Sequence[Var]) -> dict[Var, int]:
        """Return how often the innermost loop over terms is written out where that alone makes its end rarer.

        Each element of one operand is used once: what is loaded for the next terms takes no register for long.
        """
        if not self._keeps_few or not folded or tiling.lane in folded or tiling.taps or tiling.parts:
            return {}
        counts = tiling.counts(tiling.tile)
        if all(o.distinct(counts) < tiling.accumulators for o in self._work(tiling.lane).operands):
            return {}
        extent = self._extents[folded[-1]]
        room = (self._target.registers - tiling.accumulators - STORING) // (PAIRS if self._pairs else 1)
        products = tiling.accumulators * max(1, self._instructions // PRODUCT)
        is_full = 2 * tiling.accumulators > self._target.registers
        is_in_order = is_full and self._target.has_few_registers and not self._target.dsp
        most = max(1, MOST_IN_ORDER // products if is_in_order else min(MOST_AGAIN // products, room))
        return {folded[-1]: max(count for count in range(1, most + 1) if extent % count == 0)}

    def _left(
        self, lane: Var, tile: Mapping[Var, int], taps: Mapping[Var, int], parts: Mapping[Var, int]
    ) -> tuple[float, float]:
        """Return the shares of iterations and of their terms that are not left out.

        A serial loop over taps leaves out those of a tile that has one place, a written-out one those of tiles at the
        border; at a halo only where there are no tiles between them.
        """
        walked = kept = 1.0
        for window in self._windows:
            copies = tile.get(window.axis, 1)
            if window.axis == lane or window.tap in parts:
                continue
            if window.tap not in taps:
                walked *= window.share if self._is_tested(window, tile, taps, parts) else 1
            elif self._is_peeled(window, lane, taps) or self._extents[window.axis] <= MOST_BORDERS * copies:
                kept *= window.share
        return walked, kept

    def _inside(self, tap: Var, taps: Mapping[Var, int]) -> int:
        """Return how many iterations the serial loops inside of that over a folded axis have."""
        inner = self._folded_order[self._folded_order.index(tap) + 1 :]
        return prod(self._extents[axis] for axis in inner if axis not in taps)

    def _work(self, lane: Var) -> Work:
        if lane not in self._works:
            operands = tuple(self._operand(number, lane) for number in self._read)
            itemsize = max(1, self._target.vector_nbytes // self._lanes)
            self._works[lane] = Work(
                lane,
                operands,
                self._instructions,
                self._extents,
                self._fold.axes,
                itemsize,
                len(self._fold.totals),
                PAIRS if self._pairs else 1,
            )
        return self._works[lane]

    def _operand(self, number: int, lane: Var) -> Operand:
        read = self._stage.elements[number]
        if not isinstance(read, Read):
            raise TypeError(f"element {number} is not read")
        layout, loads = self._layouts.get(read.tensor), len(self._bytes.get(number, (number,)))
        loads += PAIRS if self._pairs else 0
        if layout is None:
            step = 1 if any(lane in i.variables() for i in read.at) else 0
            return Operand(number, read.at, step, is_packed=True, loads=loads)
        (step, pitch), size = lane_steps(layout.address(read.at), lane, self._extents), layout.size.constant or 0
        return Operand(number, read.at, step, is_packed=False, size=size, loads=loads, pitch=pitch)

    def _lane_axes(self) -> Iterator[Var]:
        for axis in self._stage.axes:
            if self._store.coefficient(axis) == 1 and self._extents[axis] > 1:
                yield axis
        if has_parts(self._fold) and self._lanes > 1:
            for axis in self._fold.axes:
                steps = [operand.lane_step for operand in self._work(axis).operands]
                is_long = self._extents[axis] >= self._lanes and axis not in self._written_out
                if None not in steps and 1 in steps and is_long:
                    yield axis

    def _tiles(self, lane: Var, part: int) -> Iterator[dict[Var, int]]:
        """Yield how many copies there may be along the axis in lanes and the two innermost others."""
        most = self._target.registers
        own = sorted(self._stage.axes, key=lambda axis: distance(self._store, axis))
        near = [a for a in own if a != lane and isinstance(a.extent, int) and self._extents[a] > 1][:2]
        counts = [
            column_counts(self._extents[axis], most) if not depth else row_counts(self._extents[axis])
            for depth, axis in enumerate(near)
        ]
        if lane not in self._fold.axes:
            near = [lane, *near]
            counts = [block_counts(ceil(self._extents[lane] / self._lanes)), *counts]
        # Fewer totals than hide the latency of an addition are worth a look only where no more fit.
        least = max(1, min(LATENCY * self._target.multiply_adds, prod(map(max, counts)), most // 2) // part)
        for counts_of in product(*counts):
            if least <= prod(counts_of) < most:
                yield dict(zip(near, counts_of, strict=True))

    def _taps(self, lane: Var) -> Iterator[dict[Var, int]]:
        """Yield folded axes that are written out: windows, whose places several copies share."""
        if self._written_out:
            yield {axis: self._extents[axis] for axis in self._written_out}
            return
        yield {}
        short = [a for a in self._fold.axes if a != lane and 1 < self._extents[a] <= WIDEST_WINDOW]
        if self._fold.order is Order.SEQUENTIAL:
            # Terms keep their order: only the last axes are written out.
            for number in range(len(self._fold.axes)):
                last = self._fold.axes[number:]
                if set(last) <= set(short):
                    yield {axis: self._extents[axis] for axis in last}
            return
        windows = [axis for axis in short if is_window(self._stage, self._read, axis)]
        for count in (1, 2):
            for chosen in combinations(windows, count):
                yield {axis: self._extents[axis] for axis in chosen}

    def _parts(self, lane: Var) -> Iterator[dict[Var, int]]:
        yield {}
        if not has_parts(self._fold):
            return
        axis = lane if lane in self._fold.axes else self._folded_order[-1]
        extent = self._extents[axis] // (self._lanes if axis == lane else 1)
        # More totals than the latency of an addition hides are of no use.
        yield from ({axis: count} for count in (2, 4, LATENCY * self._target.multiply_adds) if count <= extent)

    def _streams(self, work: Work, taps: Mapping[Var, int]) -> Iterator[int | None]:
        yield None
        if taps and self._fold.order is Order.ANY:
            yield from (o.number for o in work.operands if not o.is_packed and any(o.varies(tap) for tap in taps))

    @cached_property
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
