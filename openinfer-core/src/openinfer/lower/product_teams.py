"""Products by groups of threads: factors go to shared memory in slabs, each thread has a tile of totals in registers.

While a slab is multiplied, the elements of the next one are on their way to registers.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var, Within, extent_of
from openinfer.affine.digits import rejoined
from openinfer.expr import tree
from openinfer.loops import (
    Alloc,
    Barrier,
    Bind,
    Buffer,
    For,
    If,
    Kernel,
    Load,
    Memory,
    Store,
    value_of,
)
from openinfer.loops.coalesce import coalesced
from openinfer.lower.product_places import ProductPlaces, digits_along, where
from openinfer.lower.product_sides import product_of, reads_of
from openinfer.lower.tensors import layouts_of
from openinfer.schedule.products import BLOCK, PADDING, SIDE, product_tile
from openinfer.schedule.threads import WORD_NBYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from openinfer.compute import Computation
    from openinfer.expr.tree import Expr
    from openinfer.layout import Layout
    from openinfer.loops import Leaf, Statement
    from openinfer.lower.product_sides import Factor, Product
    from openinfer.schedule.products import ProductSchedule
    from openinfer.schedule.threads import Threads


def in_product_teams(
    computation: Computation, device: Threads, layouts: Mapping[str, Layout] | None = None
) -> Kernel | None:
    """Return a computation of one stage, a product, with a group of threads for each tile of results; None: it is none.

    Convolutions are products too: of weights by the windows that they are multiplied with.

    Args:
        layouts: of tensors that are not in row-major order.
    """
    (stage,) = computation.stages
    product = product_of(stage)
    if product is None:
        return None
    rows, columns, both = (prod(map(extent_of, axes)) for axes in (product.rows, product.columns, product.both))
    depth = prod(map(extent_of, product.folded))
    all_layouts = layouts_of(computation, layouts)
    lanes = max(_lanes(all_layouts, product, factor) for factor in product.factors)
    nbytes = max(sum(_nbytes(f) for f in product.factors if f.is_left == is_left) for is_left in (True, False))
    schedule = product_tile(rows, columns, depth, both, lanes, nbytes, device)
    return None if schedule is None else _Lowering(computation, product, schedule, all_layouts).kernel()


def _nbytes(factor: Factor) -> int:
    """Return the bytes of a factor in shared memory, where smaller elements take a word."""
    return max(factor.expr.dtype.bits // 8, 4)


def _lanes(layouts: Mapping[str, Layout], product: Product, factor: Factor) -> int:
    """Return how many neighbouring terms a thread loads at once of the tensor that a factor is made of; 1: one."""
    by_terms, lanes = _widest(layouts, product, factor)
    return lanes if by_terms else 1


def _widest(layouts: Mapping[str, Layout], product: Product, factor: Factor) -> tuple[bool, int]:
    """Return whether neighbours of a factor's tensor are terms, not places of its side, and how many are loaded."""
    stage = product.stage
    axes = product.rows if factor.is_left else product.columns
    place = Var("place'", prod(map(extent_of, axes)))
    term = Var("term'", prod(map(extent_of, product.folded)))
    values = {**digits_along(Index.of(place), axes), **digits_along(Index.of(term), product.folded)}
    for read in sorted(reads_of(factor, stage), key=lambda read: -read.dtype.bits * len(read.at)):
        address = rejoined(layouts[read.tensor].address(read.at).substituted(values))
        for is_term, along in ((True, term), (False, place)):
            if address.coefficient(along) != 1:
                continue
            steps = [factor_ for atoms, factor_ in address.terms if atoms != (along,)]
            most = max(1, WORD_NBYTES * 8 // max(read.dtype.bits, 16))
            common = gcd(extent_of(along), most, *steps)
            return is_term, common if read.fill is None and common >= BLOCK else 1
    return False, 1


@dataclass(frozen=True, slots=True)
class _Slab:
    """A factor on its way: its elements in registers of the threads, then in memory that they share.

    Attributes:
        by_terms: whether neighbouring threads load neighbouring terms, not neighbouring places.
        lanes: how many neighbours a thread loads at once.
        size: places of a tile on its side.
    """

    factor: Factor
    ahead: Buffer
    shared: Buffer
    block: Buffer
    by_terms: bool
    lanes: int
    size: int


class _Lowering(ProductPlaces):
    def __init__(
        self,
        computation: Computation,
        product: Product,
        schedule: ProductSchedule,
        layouts: Mapping[str, Layout],
    ) -> None:
        super().__init__(computation, product, layouts)
        self._schedule = schedule
        self._stage = product.stage
        self._folded, self._total = product.folded, product.total
        self._row_group = Var(self.names.new("row_tile"), -(-self.rows // schedule.rows))
        self._column_group = Var(self.names.new("column_tile"), -(-self.columns // schedule.columns))
        self._down = self._pair("down")
        self._across = self._pair("across")
        self._slabs = tuple(map(self._slab, product.factors))
        self._ratio = schedule.rows // SIDE, schedule.columns // SIDE
        size = Index.of(self._ratio[0] * self._ratio[1])
        self._totals = Buffer(self.names.new("totals"), self._total.dtype, size, Memory.PRIVATE)

    def _pair(self, name: str) -> tuple[Var, Var]:
        """Return the loops over threads along a side: over groups of them, and those of a group."""
        return Var(self.names.new(f"{name}_group"), SIDE // BLOCK), Var(self.names.new(name), BLOCK)

    def _slab(self, factor: Factor) -> _Slab:
        size = self._schedule.rows if factor.is_left else self._schedule.columns
        by_terms, lanes = _widest(self.layouts, self.product, factor)
        lanes = lanes if by_terms or lanes == BLOCK else min(lanes, size // SIDE)
        if by_terms and lanes > 1 and self._schedule.depth != BLOCK * lanes:
            lanes = 1
        dtype, depth = factor.expr.dtype, self._schedule.depth
        name = "left" if factor.is_left else "right"
        ahead = Buffer(self.names.new(f"{name}_ahead"), dtype, Index.of(size * depth // SIDE**2), Memory.PRIVATE)
        shared = Buffer(self.names.new(f"{name}_slab"), dtype, Index.of(depth * (size + PADDING)), Memory.SHARED)
        block = Buffer(self.names.new(f"{name}_block"), dtype, Index.of(size // SIDE), Memory.PRIVATE)
        return _Slab(factor, ahead, shared, block, by_terms, lanes, size)

    def kernel(self) -> Kernel:
        slabs = self._slabs
        turns = -(-self.depth // self._schedule.depth)
        turn = Var(self.names.new("slab"), turns)
        loads_first = [load for slab in slabs for load in self._loaded(slab, Index())]
        following = tuple(load for slab in slabs for load in self._loaded(slab, Index.of(turn) + 1))
        more = (If((Within(Index.of(turn) + 1, Index.of(turns)),), following),) if turns > 1 else ()
        shared = [store for slab in slabs for store in self._put(slab)]
        body: tuple[Statement, ...] = (
            *(Alloc(slab.ahead) for slab in slabs),
            *(Alloc(slab.block) for slab in slabs),
            Alloc(self._totals),
            *self._cleared(),
            *loads_first,
            For(turn, Bind.SERIAL, (*shared, Barrier(), *more, *self._multiplied(turn), Barrier())),
            *self._stored(),
        )
        for axis in reversed((*self._down, *self._across)):
            body = (For(axis, Bind.LOCAL, body),)
        body = (*(Alloc(slab.shared) for slab in slabs), *body)
        for axis in reversed((*self.product.both, self._row_group, self._column_group)):
            body = (For(axis, Bind.GROUP, body),)
        buffers = tuple(self.buffers[t.name] for t in (*self.computation.inputs, *self.computation.outputs))
        return coalesced(Kernel(self.computation.name, buffers, body))

    # Places.

    def _number(self, pair: tuple[Var, Var]) -> Index:
        """Return the number of a thread along a side."""
        return pair[0] * BLOCK + pair[1]

    def _first(self, slab: _Slab) -> Index:
        group = self._row_group if slab.factor.is_left else self._column_group
        return Index.of(group) * slab.size

    # Slabs.

    def _loaded(self, slab: _Slab, turn: Index) -> Iterator[Statement]:
        """Yield what loads the elements that this thread brings of a slab."""
        for number, (place, term) in enumerate(self._brought(slab)):
            lane = Var(self.names.new("lane"), slab.lanes)
            offset = Index.of(lane) if slab.lanes > 1 else Index()
            at = self._first(slab) + place + (Index() if slab.by_terms else offset)
            depth = turn * self._schedule.depth + term + (offset if slab.by_terms else Index())
            side = self.product.rows if slab.factor.is_left else self.product.columns
            store = Store(slab.ahead, number * slab.lanes + offset, self.value(slab.factor.expr))
            inside = self.at(store, ((side, at), (self._folded, depth)), by_axis=True)
            if slab.lanes > 1:
                inside = (For(lane, Bind.UNROLL, inside),)
            extent = self.rows if slab.factor.is_left else self.columns
            # Lanes divide the extent along which they lie: all of them are inside, or none.
            along, across = (depth, at) if slab.by_terms else (at, depth)
            length, width = (self.depth, extent) if slab.by_terms else (extent, self.depth)
            whole = Within((along - offset) // slab.lanes, Index.of(length // slab.lanes))
            inner, outer = (
                (whole, Within(across, Index.of(width))) if slab.by_terms else (Within(across, Index.of(width)), whole)
            )
            # The test of the terms is needed where the last slab is not full: there is one more slab for certain.
            needed = (*((inner,) if self.depth % self._schedule.depth else ()), outer)
            tests = tuple(test for test in needed if not test.is_certain)
            yield from (If(tests, inside),) if tests else inside

    def _brought(self, slab: _Slab) -> Iterator[tuple[Index, Index]]:
        """Yield the first place and term, within a slab, of each run of neighbours that a thread brings."""
        depth, down, across = self._schedule.depth, self._number(self._down), self._number(self._across)
        if slab.by_terms and slab.lanes > 1:
            threads = down * BLOCK + self._across[0]
            for number in range(slab.size // (SIDE * BLOCK)):
                yield threads + number * SIDE * BLOCK, self._across[1] * slab.lanes
        elif slab.by_terms:
            for number in range(slab.size // SIDE):
                for part in range(depth // SIDE):
                    yield down + number * SIDE, across + part * SIDE
        else:
            for number in range(slab.size // (SIDE * slab.lanes)):
                for part in range(depth // SIDE):
                    yield (across + number * SIDE) * slab.lanes, down + part * SIDE

    def _put(self, slab: _Slab) -> Iterator[Statement]:
        """Yield what puts the elements that this thread has brought into shared memory."""
        for number, (place, term) in enumerate(self._brought(slab)):
            lane = Var(self.names.new("lane"), slab.lanes)
            offset = Index.of(lane) if slab.lanes > 1 else Index()
            at, depth = (place, term + offset) if slab.by_terms else (place + offset, term)
            load = Load(slab.ahead, number * slab.lanes + offset)
            value = value_of(tree.Input(0, load.dtype), {0: load})
            store = Store(slab.shared, depth * (slab.size + PADDING) + at, value)
            yield For(lane, Bind.UNROLL, (store,)) if slab.lanes > 1 else store

    # Totals.

    def _cleared(self) -> Iterator[Statement]:
        every = Var(self.names.new("total"), self._totals.size.constant)
        if self._total.start is None:
            raise TypeError("a product has no start")
        yield For(every, Bind.UNROLL, (Store(self._totals, Index.of(every), value_of(self._total.start, {})),))

    def _multiplied(self, turn: Var) -> Iterator[Statement]:
        """Yield what adds the products of a slab to the totals of this thread."""
        term = Var(self.names.new("term"), self._schedule.depth)
        row, column = (Var(self.names.new(name), n) for name, n in zip(("row", "column"), self._ratio, strict=True))
        body: list[Statement] = []
        for slab in self._slabs:
            body += self._block(slab, term)
        leaves: dict[int, Leaf] = {~0: Load(self._totals, row * self._ratio[1] + column)}
        for slab in self._slabs:
            leaves[slab.factor.number] = Load(slab.block, Index.of(row if slab.factor.is_left else column))
        store = Store(self._totals, row * self._ratio[1] + column, value_of(self._advanced(), leaves))
        body.append(For(row, Bind.UNROLL, (For(column, Bind.UNROLL, (store,)),)))
        inside: tuple[Statement, ...] = tuple(body)
        if self.depth % self._schedule.depth:
            inside = (If((Within(turn * self._schedule.depth + term, Index.of(self.depth)),), inside),)
        yield For(term, Bind.UNROLL, inside)

    def _block(self, slab: _Slab, term: Var) -> Iterator[Statement]:
        """Yield what loads the elements of a slab that this thread needs for one term."""
        number = self._number(self._down if slab.factor.is_left else self._across)
        for part in range(slab.size // (SIDE * BLOCK)):
            lane = Var(self.names.new("lane"), BLOCK)
            at = number * BLOCK + part * SIDE * BLOCK + lane
            load = Load(slab.shared, term * (slab.size + PADDING) + at)
            store = Store(slab.block, part * BLOCK + Index.of(lane), value_of(tree.Input(0, load.dtype), {0: load}))
            yield For(lane, Bind.UNROLL, (store,))

    def _advanced(self) -> Expr:
        """Return a total with one more term, in one rounding where there is such."""
        match self.product.term:
            case tree.Apply("mul", (a, b), dtype) if dtype.is_float and dtype.bits >= 32:
                return tree.fma(a, b, tree.Input(~0, dtype))
            case term:
                return tree.substitute(self._total.combine, {~1: term})

    def _stored(self) -> Iterator[Statement]:
        """Yield what stores the results of this thread, neighbours at once where rows are whole words."""
        named = ("row_part", "row", "column_part", "column")
        extents = (self._ratio[0] // BLOCK, BLOCK, self._ratio[1] // BLOCK, BLOCK)
        row_part, row, column_part, column = (
            Var(self.names.new(name), n) for name, n in zip(named, extents, strict=True)
        )
        place = self._row_group * self._schedule.rows + self._number(self._down) * BLOCK + row_part * SIDE * BLOCK + row
        first = self._column_group * self._schedule.columns + self._number(self._across) * BLOCK
        first = first + column_part * SIDE * BLOCK
        total = Load(self._totals, (row_part * BLOCK + row) * self._ratio[1] + column_part * BLOCK + column)
        at = self.layouts[self._stage.tensor].address(self._stage.at)
        store = Store(self.buffers[self._stage.tensor], at, self.value(self._stage.value, {~0: total}))
        sides = ((self.product.rows, place), (self.product.columns, first + column))
        body = self.at(store, sides, by_axis=False)
        inner = BLOCK if self.columns % BLOCK == 0 else 1
        rows = Within(place, Index.of(self.rows))
        columns = Within((first if inner > 1 else first + column) // inner, Index.of(self.columns // inner))
        if inner > 1:
            body = where(columns, (For(column, Bind.UNROLL, body),))
        else:
            body = (For(column, Bind.UNROLL, where(columns, body)),)
        body = (For(row, Bind.UNROLL, where(rows, (For(column_part, Bind.UNROLL, body),))),)
        yield For(row_part, Bind.UNROLL, body)
