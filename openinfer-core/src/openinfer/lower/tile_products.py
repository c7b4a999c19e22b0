"""Products by matrix units: factors go to shared memory in slabs, subgroups multiply tiles of them.

While a slab is multiplied, the elements of the next one are on their way to registers. The totals of a tile go through
shared memory to the threads, which compute the results from them.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var, Within, extent_of
from openinfer.compute import Read
from openinfer.expr import tree
from openinfer.loops import (
    Alloc,
    Barrier,
    Bind,
    Buffer,
    For,
    Kernel,
    Load,
    Memory,
    Role,
    Store,
    Tile,
    TileAlloc,
    TileFill,
    TileFma,
    TileLoad,
    Tiles,
    TileStore,
    value_of,
)
from openinfer.loops.coalesce import coalesced
from openinfer.lower.product_places import ProductPlaces, where
from openinfer.lower.product_sides import product_of
from openinfer.lower.tensors import layouts_of
from openinfer.lower.tile_factors import plain_factors, steps_of
from openinfer.schedule.products import PADDING_NBYTES, tile_product
from openinfer.schedule.threads import WORD_NBYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from openinfer.compute import Computation
    from openinfer.dtypes import DType
    from openinfer.layout import Layout
    from openinfer.loops import Statement
    from openinfer.lower.tile_factors import Steps
    from openinfer.schedule.products import TileProductSchedule
    from openinfer.schedule.threads import Threads

RUN = 4
"""Neighbouring results that a thread computes."""


def in_tile_products(
    computation: Computation, device: Threads, layouts: Mapping[str, Layout] | None = None
) -> Kernel | None:
    """Return a computation of one stage, a product of two tensors, for the matrix units of a device.

    None: it is another stage, or the device has none for its types and sizes.

    Args:
        layouts: of tensors that are not in row-major order.
    """
    (stage,) = computation.stages
    product = product_of(stage)
    factors = None if product is None else plain_factors(product)
    if product is None or factors is None:
        return None
    all_layouts = layouts_of(computation, layouts)
    places = ProductPlaces(computation, product, all_layouts)
    steps = [steps_of(places, read, is_left=is_left) for is_left, read in zip((True, False), factors, strict=True)]
    along = [step for step in steps if step is not None]
    if len(along) < len(steps):
        return None
    count = prod(map(extent_of, product.both))
    types = (factors[0].dtype, product.total.dtype)
    schedule = tile_product(places.rows, places.columns, places.depth, count, types, device)
    return None if schedule is None else _Lowering(places, schedule, factors, along).kernel()


@dataclass(frozen=True, slots=True)
class _Slab:
    """A factor on its way: its elements in registers of the threads, in memory that they share, and as tiles.

    Attributes:
        shared: the memory of each stage.
        lines: of neighbours that are loaded, each of so many ``parts`` of 16 bytes.
    """

    load: Load
    is_left: bool
    by_terms: bool
    steps: Steps
    ahead: Buffer
    shared: tuple[Buffer, ...]
    tiles: Tiles
    lines: int
    parts: int
    lanes: int

    @property
    def stride(self) -> int:
        """Elements from one line in shared memory to the next."""
        return self.parts * self.lanes + PADDING_NBYTES * 8 // self.load.dtype.bits


class _Lowering:
    def __init__(
        self, places: ProductPlaces, schedule: TileProductSchedule, factors: tuple[Read, Read], steps: list[Steps]
    ) -> None:
        self._places, self._schedule = places, schedule
        self._new = places.names.new
        tiles = -(-places.rows // schedule.rows)
        self._bands = Var(self._new("band"), tiles // schedule.band)
        self._column_tile = Var(self._new("column_tile"), -(-places.columns // schedule.columns))
        self._row_tile = Var(self._new("row_tile"), schedule.band)
        self._down = Var(self._new("down"), schedule.down)
        self._across = Var(self._new("across"), schedule.across)
        self._fragments = (
            schedule.rows // schedule.down // schedule.shape.rows,
            schedule.columns // schedule.across // schedule.shape.columns,
        )
        self._slabs = tuple(
            self._slab(read, step, is_left=is_left)
            for read, step, is_left in zip(factors, steps, (True, False), strict=True)
        )
        self._out_parts = schedule.shape.columns // RUN
        self._lanes = self._digits()
        shape, count = schedule.shape, self._fragments[0] * self._fragments[1]
        self._totals = self._tiles("totals", shape.total, Role.TOTAL, (shape.rows, shape.columns), count)
        self._scratch_stride = shape.columns + RUN
        size = schedule.down * schedule.across * shape.rows * self._scratch_stride
        self._scratch = Buffer(self._new("results"), shape.total, Index.of(size), Memory.SHARED)

    def _tiles(self, name: str, dtype: DType, role: Role, size: tuple[int, int], count: int) -> Tiles:
        return Tiles(self._new(name), dtype, role, *size, count, self._schedule.subgroup)

    def _slab(self, read: Read, steps: Steps, *, is_left: bool) -> _Slab:
        schedule, shape = self._schedule, self._schedule.shape
        size = schedule.rows if is_left else schedule.columns
        lanes = WORD_NBYTES * 8 // read.dtype.bits
        lines, length = (size, schedule.depth) if steps.by_terms else (schedule.depth, size)
        name = "left" if is_left else "right"
        load = self._places.leaf(read)
        if not isinstance(load, Load):
            raise TypeError(f"a factor of a product is {load}, not an element of a tensor")
        per_thread = size * schedule.depth // schedule.threads
        stride = length + PADDING_NBYTES * 8 // read.dtype.bits
        role, form = (Role.LEFT, (shape.rows, shape.depth)) if is_left else (Role.RIGHT, (shape.depth, shape.columns))
        return _Slab(
            load=load,
            is_left=is_left,
            by_terms=steps.by_terms,
            steps=steps,
            ahead=Buffer(self._new(f"{name}_ahead"), read.dtype, Index.of(per_thread), Memory.PRIVATE),
            shared=tuple(
                Buffer(self._new(f"{name}_slab"), read.dtype, Index.of(lines * stride), Memory.SHARED)
                for _ in range(schedule.stages)
            ),
            tiles=self._tiles(f"{name}_tiles", read.dtype, role, form, self._fragments[0 if is_left else 1]),
            lines=lines,
            parts=length // lanes,
            lanes=lanes,
        )

    # The threads of a group: subgroups down and across, and digits of the number within a subgroup.

    def _digits(self) -> list[tuple[int, Var]]:
        """Return loops over the threads of a subgroup, with what each step of them counts, the longest first."""
        marks = {1, self._out_parts, self._schedule.subgroup}
        for slab in self._slabs:
            marks.add(slab.parts)
            if self._is_spread(slab):
                marks |= {8, 8 * slab.parts}
        ordered = sorted(mark for mark in marks if mark <= self._schedule.subgroup)
        return [(low, Var(self._new("lane"), high // low)) for low, high in pairwise(ordered)][::-1]

    def _is_spread(self, slab: _Slab) -> bool:
        """Return whether threads that store at once take lines that are far apart, so as to reach different banks."""
        return slab.parts < 8 and 8 * slab.parts <= self._schedule.subgroup

    def _lane(self, low: int, high: int) -> Index:
        """Return the digits of a thread's number in its subgroup from one step to another."""
        parts = [var * (step // low) for step, var in self._lanes if low <= step < high]
        return sum(parts, Index())

    def _thread(self, low: int) -> Index:
        """Return a thread's number in its group, divided by ``low``."""
        subgroup = self._down * self._schedule.across + self._across
        return subgroup * (self._schedule.subgroup // low) + self._lane(low, self._schedule.subgroup)

    def _line(self, slab: _Slab) -> Index:
        """Return which line of a slab a thread brings first."""
        if not self._is_spread(slab):
            return self._thread(slab.parts)
        near, far = self._lane(8, 8 * slab.parts), self._lane(slab.parts, 8)
        return self._thread(8 * slab.parts) * 8 + far * slab.parts + near

    # The program.

    def kernel(self) -> Kernel:
        slabs, places = self._slabs, self._places
        body: tuple[Statement, ...] = (
            *(Alloc(slab.ahead) for slab in slabs),
            *(TileAlloc(slab.tiles) for slab in slabs),
            TileAlloc(self._totals),
            *self._cleared(),
            *self._loaded(Index()),
            *(self._in_one_memory() if self._schedule.stages == 1 else self._in_two_memories()),
            *self._stored(),
        )
        for axis in reversed((self._down, self._across, *(var for _, var in self._lanes))):
            body = (For(axis, Bind.LOCAL, body),)
        body = (*(Alloc(memory) for slab in slabs for memory in slab.shared), Alloc(self._scratch), *body)
        for axis in reversed((*places.product.both, self._bands, self._column_tile, self._row_tile)):
            body = (For(axis, Bind.GROUP, body),)
        computation = places.computation
        buffers = tuple(places.buffers[t.name] for t in (*computation.inputs, *computation.outputs))
        return coalesced(Kernel(computation.name, buffers, body))

    @property
    def _turns(self) -> int:
        """How many slabs there are."""
        return -(-self._places.depth // self._schedule.depth)

    def _in_one_memory(self) -> Iterator[Statement]:
        """Yield how all slabs are multiplied: each takes the memory of the one before."""
        turn = Var(self._new("slab"), self._turns - 1)
        if self._turns > 1:
            following = self._loaded(Index.of(turn) + 1)
            yield For(turn, Bind.SERIAL, (*self._put(0), Barrier(), *following, *self._multiplied(0), Barrier()))
        yield from (*self._put(0), Barrier(), *self._multiplied(0))

    def _in_two_memories(self) -> Iterator[Statement]:
        """Yield how all slabs are multiplied: the next one is put into the other memory meanwhile."""
        pairs, rest = divmod(self._turns - 1, 2)
        pair = Var(self._new("slab"), pairs)
        yield from (*self._put(0), Barrier())
        if pairs:
            yield For(pair, Bind.SERIAL, (*self._step(0, pair * 2 + 1), *self._step(1, pair * 2 + 2)))
        if rest:
            yield from self._step(0, Index.of(self._turns - 1))
        yield from self._multiplied(rest)

    def _step(self, stage: int, turn: Index) -> Iterator[Statement]:
        """Yield what multiplies a slab, and puts the following one into the other memory."""
        yield from (*self._loaded(turn), *self._multiplied(stage), *self._put(1 - stage), Barrier())

    def _first(self, *, is_left: bool) -> Index:
        """Return the first place of a group along a side."""
        if is_left:
            return (self._bands * self._schedule.band + self._row_tile) * self._schedule.rows
        return self._column_tile * self._schedule.columns

    def _brought(self, slab: _Slab) -> Iterator[tuple[int, Index, Index]]:
        """Yield the lines of a slab that a thread brings parts of: number, line, and first element in it."""
        lines = self._schedule.threads // slab.parts
        for number in range(slab.lines // lines):
            yield number, self._line(slab) + number * lines, self._lane(1, slab.parts) * slab.lanes

    def _loaded(self, turn: Index) -> Iterator[Statement]:
        """Yield what loads the elements that this thread brings of the slabs of both factors."""
        for slab in self._slabs:
            yield from self._loaded_of(slab, turn)

    def _loaded_of(self, slab: _Slab, turn: Index) -> Iterator[Statement]:
        """Yield what loads elements of a slab; those outside of the tensor are zeros."""
        places = self._places
        extent = places.rows if slab.is_left else places.columns
        for number, line, first in self._brought(slab):
            lane = Var(self._new("lane"), slab.lanes)
            place, term = (line, first + lane) if slab.by_terms else (first + lane, line)
            place = self._first(is_left=slab.is_left) + place
            term = turn * self._schedule.depth + term
            tests = (Within(term, Index.of(places.depth)), Within(place, Index.of(extent)))
            guards = tuple(test for test in tests if not test.is_certain)
            address = slab.steps.first + place * slab.steps.place + term * slab.steps.term
            fill = tree.literal(0, slab.load.dtype) if guards else None
            load = Load(slab.load.buffer, address, guards, fill)
            value = value_of(tree.Input(0, load.dtype), {0: load})
            yield For(lane, Bind.UNROLL, (Store(slab.ahead, number * slab.lanes + Index.of(lane), value),))

    def _put(self, stage: int) -> Iterator[Statement]:
        """Yield what puts the elements that this thread has brought into shared memory."""
        for slab in self._slabs:
            for number, line, first in self._brought(slab):
                lane = Var(self._new("lane"), slab.lanes)
                load = Load(slab.ahead, number * slab.lanes + Index.of(lane))
                value = value_of(tree.Input(0, load.dtype), {0: load})
                store = Store(slab.shared[stage], line * slab.stride + first + lane, value)
                yield For(lane, Bind.UNROLL, (store,))

    # Totals.

    def _cleared(self) -> Iterator[Statement]:
        every = Var(self._new("total"), self._totals.count)
        yield For(every, Bind.UNROLL, (TileFill(Tile(self._totals, Index.of(every)), 0),))

    def _multiplied(self, stage: int) -> Iterator[Statement]:
        """Yield what adds the products of a slab to the totals of this subgroup."""
        rows, columns = self._fragments
        row, column = Var(self._new("row"), rows), Var(self._new("column"), columns)
        part = Var(self._new("part"), self._schedule.depth // self._schedule.shape.depth)
        left, right = self._slabs
        tiles = Tile(left.tiles, Index.of(row)), Tile(right.tiles, Index.of(column))
        total = Tile(self._totals, row * columns + column)
        body = (
            self._tiles_of(left, stage, self._down, part),
            self._tiles_of(right, stage, self._across, part),
            For(column, Bind.UNROLL, (For(row, Bind.UNROLL, (TileFma(total, *tiles),)),)),
        )
        yield For(part, Bind.UNROLL, body)

    def _tiles_of(self, slab: _Slab, stage: int, subgroup: Var, part: Var) -> Statement:
        """Return what loads the tiles of a factor that a subgroup needs for a part of the terms."""
        shape = self._schedule.shape
        side = shape.rows if slab.is_left else shape.columns
        number = Var(self._new("tile"), slab.tiles.count)
        place, term = (subgroup * slab.tiles.count + number) * side, part * shape.depth
        lines, first = (place, term) if slab.by_terms else (term, place)
        address = lines * slab.stride + first
        load = TileLoad(
            Tile(slab.tiles, Index.of(number)), slab.shared[stage], address, slab.stride, slab.by_terms != slab.is_left
        )
        return For(number, Bind.UNROLL, (load,))

    def _stored(self) -> Iterator[Statement]:
        """Yield what stores results: one tile of each subgroup after the other, neighbours at once."""
        shape, (rows, columns) = self._schedule.shape, self._fragments
        row, column = Var(self._new("row"), rows), Var(self._new("column"), columns)
        lines = self._schedule.subgroup // self._out_parts
        part, lane = Var(self._new("part"), shape.rows // lines), Var(self._new("lane"), RUN)
        own = (self._down * self._schedule.across + self._across) * (shape.rows * self._scratch_stride)
        line = part * lines + self._lane(self._out_parts, self._schedule.subgroup)
        first = self._lane(1, self._out_parts) * RUN
        total = Load(self._scratch, own + line * self._scratch_stride + first + lane)
        place = self._first(is_left=True) + (self._down * rows + row) * shape.rows + line
        across = self._first(is_left=False) + (self._across * columns + column) * shape.columns + first
        body = self._results(total, place, across, lane)
        tile = TileStore(self._scratch, own, self._scratch_stride, Tile(self._totals, row * columns + column))
        inner = (tile, Barrier(), For(part, Bind.UNROLL, body), Barrier())
        yield For(row, Bind.UNROLL, (For(column, Bind.UNROLL, inner),))

    def _results(self, total: Load, place: Index, across: Index, lane: Var) -> tuple[Statement, ...]:
        """Return what stores a run of results from their totals."""
        places = self._places
        product, stage = places.product, places.product.stage
        at = places.layouts[stage.tensor].address(stage.at)
        store = Store(places.buffers[stage.tensor], at, places.value(stage.value, {~0: total}))
        sides = ((product.rows, place), (product.columns, across + lane))
        body = places.at(store, sides, by_axis=False)
        inside = Within(place, Index.of(places.rows))
        if places.columns % RUN == 0:
            run = For(lane, Bind.UNROLL, body)
            return where(inside, where(Within(across // RUN, Index.of(places.columns // RUN)), (run,)))
        results = where(Within(across + lane, Index.of(places.columns)), body)
        return where(inside, (For(lane, Bind.UNROLL, results),))
