"""Rows by groups of threads: each thread holds some elements of a row in registers, and totals are joined.

All stages of a softmax or a norm are one loop program, which reads every element once and writes it once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from math import gcd, prod
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var, Within, extent_of
from openinfer.affine.digits import digits_of, rejoined
from openinfer.compute import Read
from openinfer.expr import tree
from openinfer.expr.linear import linearise
from openinfer.loops import (
    Alloc,
    Bind,
    Buffer,
    For,
    If,
    Join,
    Kernel,
    Let,
    Load,
    Memory,
    Peer,
    Register,
    Set,
    Store,
    value_of,
)
from openinfer.loops.coalesce import coalesced
from openinfer.lower.accesses import access
from openinfer.lower.names import Names
from openinfer.lower.product_places import digits_along
from openinfer.lower.row_stages import row_stages, varies
from openinfer.lower.tensors import buffers_of, layouts_of
from openinfer.schedule.folds import identity
from openinfer.schedule.threads import across_rows, along_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from openinfer.compute import Computation, Element, Total
    from openinfer.dtypes import DType
    from openinfer.expr.tree import Expr
    from openinfer.layout import Layout
    from openinfer.loops import Leaf, Statement, Value
    from openinfer.lower.row_stages import RowStage
    from openinfer.lower.searches import Search
    from openinfer.schedule.threads import RowSchedule, Threads


def in_row_teams(
    computation: Computation, device: Threads, layouts: Mapping[str, Layout] | None = None
) -> Kernel | None:
    """Return the stages of a computation as one loop program with a group of threads for each row, or some rows.

    None: they do not go along the same rows, elements of a row do not lie where threads read them well, or a thread for
    each row does as well.

    Args:
        layouts: of tensors that are not in row-major order.
    """
    planned = _planned(computation, device, layouts)
    return None if planned is None else _Lowering(computation, *planned).kernel()


def holds_rows(computation: Computation, device: Threads) -> bool:
    """Return whether a group of threads reads each row of a computation once, and keeps it in registers."""
    planned = _planned(computation, device, None)
    return planned is not None and planned[1].is_held


def _planned(
    computation: Computation, device: Threads, layouts: Mapping[str, Layout] | None
) -> tuple[tuple[RowStage, ...], RowSchedule, Mapping[str, Layout]] | None:
    """Return the stages of a computation, how their rows are dealt out, and where all tensors lie."""
    stages = row_stages(computation)
    if stages is None:
        return None
    all_layouts = layouts_of(computation, layouts)
    schedule = _schedule(all_layouts, stages, device)
    return None if schedule is None else (stages, schedule, all_layouts)


def _schedule(layouts: Mapping[str, Layout], stages: Sequence[RowStage], device: Threads) -> RowSchedule | None:
    """Return how the rows are dealt out, from the steps between the elements that threads touch."""
    first = stages[0]
    count = prod(extent_of(axis) for axis in first.rows)
    whole = Var("place'", prod(map(extent_of, first.inside)))
    if device.is_software and any(row_stage.search for row_stage in stages):
        # Lanes of a processor join a place and an element more slowly than one of them finds it.
        return None
    last = next(reversed(tuple(first.rows.values())), None)
    steps: list[tuple[int, int]] = []
    common = extent_of(whole)
    widths: set[int] = set()
    for row_stage in stages:
        inside = digits_along(Index.of(whole), row_stage.inside)
        for tensor, at, dtype in _touched(row_stage):
            address = rejoined(layouts[tensor].address(at).substituted(inside))
            if not {whole, *row_stage.rows} & address.variables() or whole not in address.variables():
                continue
            along = address.coefficient(whole)
            if along is None and row_stage.inside[-1] not in {var for index in at for var in index.variables()}:
                # Elements that change from group to group of those of a row, such as scales.
                continue
            along = 0 if along is None else along
            below = next((own for own, row in row_stage.rows.items() if row == last), None)
            steps.append((along, 0 if below is None else address.coefficient(below) or 0))
            if along == 1:
                common = gcd(common, *(factor for atoms, factor in address.terms if atoms != (whole,)))
                widths.add(dtype.bits)
    if not steps:
        return None
    if all(along == 1 for along, _ in steps):
        columns, bits = 1 if last is None else extent_of(last), (min(widths), max(widths))
        return along_row(extent_of(whole), columns, count, bits, common, device)
    if last is not None and all(across == 1 or along == 1 for along, across in steps) and len(stages) == 1:
        return across_rows(extent_of(whole), count, extent_of(last), device)
    return None


def _touched(row_stage: RowStage) -> Iterator[tuple[str, tuple[Index, ...], DType]]:
    for element in row_stage.stage.elements:
        if isinstance(element, Read):
            yield element.tensor, element.at, element.dtype
    if row_stage.stage.fold is None:
        yield row_stage.stage.tensor, row_stage.stage.at, row_stage.stage.value.dtype


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a thread is.

    Attributes:
        held: the number of the element among those that it holds.
        first, lane: the neighbours that it takes at once, in numbers of so many, and which of them it is.
    """

    held: Index
    first: Index
    lane: Index = field(default_factory=Index)


class _Lowering:
    def __init__(
        self,
        computation: Computation,
        stages: Sequence[RowStage],
        schedule: RowSchedule,
        layouts: Mapping[str, Layout],
    ) -> None:
        self._computation, self._stages, self._schedule = computation, stages, schedule
        first = stages[0]
        self._length = prod(map(extent_of, first.inside))
        self._layouts, self._buffers = layouts, buffers_of(computation, layouts)
        taken = {var.name for row_stage in stages for var in (*row_stage.stage.axes, *row_stage.inside)}
        self._names = Names({*self._buffers, *taken})
        self._thread = Var(self._names.new("thread"), schedule.threads)
        self._team = Var(self._names.new("team"), schedule.rows)
        self._rows, self._groups = self._dealt(list(first.rows.values()))
        self._private: dict[Element | str, Buffer] = {}
        self._scalars: dict[str, Register] = {}
        self._kept = {tensor.name for tensor in computation.outputs}

    def kernel(self) -> Kernel:
        body: list[Statement] = []
        if self._schedule.is_held:
            body += self._held()
        for row_stage in self._stages:
            body += self._folded(row_stage) if row_stage.stage.fold is not None else self._spread(row_stage)
        allocated = [Alloc(buffer) for buffer in dict.fromkeys(self._private.values())]
        inner: tuple[Statement, ...] = (*allocated, *body)
        axes = (self._thread, self._team) if self._schedule.is_across else (self._team, self._thread)
        for axis in reversed(axes if self._schedule.rows > 1 else (self._thread,)):
            inner = (For(axis, Bind.LOCAL, inner),)
        for axis in reversed(self._groups):
            inner = (For(axis, Bind.GROUP, inner),)
        used = [t for t in (*self._computation.inputs, *self._computation.temporaries) if t.name not in self._private]
        used = [tensor for tensor in used if tensor.name not in self._scalars or tensor in self._computation.inputs]
        buffers = (*used, *self._computation.outputs)
        return coalesced(Kernel(self._computation.name, tuple(self._buffers[t.name] for t in buffers), inner))

    def _dealt(self, axes: list[Var]) -> tuple[dict[Var, Index], list[Var]]:
        """Return the place of each axis of the rows, and the loops over groups."""
        places = {axis: Index.of(axis) for axis in axes}
        if self._schedule.rows == 1 or not axes:
            return places, axes
        groups = Var(axes[-1].name, extent_of(axes[-1]) // self._schedule.rows)
        return {**places, axes[-1]: groups * self._schedule.rows + self._team}, [*axes[:-1], groups]

    # Elements.

    def _held(self) -> Iterator[Statement]:
        """Yield what loads the elements that several stages use."""
        uses: dict[tuple[str, Index], list[tuple[RowStage, Element]]] = {}
        probe = _Place(Index(), Index.of(Var("probe'", self._length // self._schedule.lanes)))
        for row_stage in self._stages:
            for element in dict.fromkeys(row_stage.stage.elements):
                if varies(element, row_stage.inside) and isinstance(element, Read) and element.fill is None:
                    address = self._address(element, self._values(row_stage, probe))
                    uses.setdefault((element.tensor, address), []).append((row_stage, element))
        written = {row_stage.stage.tensor for row_stage in self._stages}
        for (tensor, _), users in uses.items():
            if len(users) < 2 or tensor in written:
                continue
            row_stage, element = users[0]
            private = self._new_private(tensor, element.dtype)
            yield from self._over_turns(partial(self._loaded, private, row_stage, element))
            self._private |= {loaded: private for _, loaded in users}

    def _loaded(self, private: Buffer, row_stage: RowStage, element: Element, place: _Place) -> tuple[Statement, ...]:
        leaf = self._leaf(row_stage, element, place)
        return (Store(private, place.held, value_of(tree.Input(0, element.dtype), {0: leaf})),)

    def _new_private(self, name: str, dtype: DType) -> Buffer:
        size = Index.of(self._schedule.turns * self._schedule.lanes)
        return Buffer(self._names.new(f"held_{name}_"), dtype, size, Memory.PRIVATE)

    def _values(self, row_stage: RowStage, place: _Place | None) -> dict[Var, Index]:
        values = {own: self._rows[row] for own, row in row_stage.rows.items()}
        return values if place is None else {**values, **self._inside(row_stage.inside, place)}

    def _inside(self, axes: Sequence[Var], place: _Place) -> dict[Var, Index]:
        """Return the place along each axis within a row: neighbours differ in the last one only, if they fill it."""
        lanes = self._schedule.lanes
        extents = list(map(extent_of, axes))
        if len(axes) == 1 or extents[-1] % lanes:
            return digits_along(place.first * lanes + place.lane, axes)
        *outer, last = digits_of(place.first, [*extents[:-1], extents[-1] // lanes])
        return dict(zip(axes, [*outer, last * lanes + place.lane], strict=True))

    def _address(self, element: Read, values: Mapping[Var, Index]) -> Index:
        return rejoined(self._layouts[element.tensor].address(element.at).substituted(values))

    def _leaf(self, row_stage: RowStage, element: Element, place: _Place | None) -> Leaf:
        if isinstance(element, Read) and element.tensor in self._scalars:
            return self._scalars[element.tensor]
        private = self._private.get(element) or (
            self._private.get(element.tensor) if isinstance(element, Read) else None
        )
        if private is not None and place is not None:
            return Load(private, place.held)
        accessed, values = access(element, self._buffers, self._layouts), self._values(row_stage, place)
        return accessed.leaf(rejoined(accessed.index(values)), accessed.tests(values))

    def _value(
        self, row_stage: RowStage, expr: Expr, place: _Place | None, more: Mapping[int, Leaf] | None = None
    ) -> Value:
        used = [number for number in linearise(expr).inputs if number >= 0]
        leaves = {number: self._leaf(row_stage, row_stage.stage.elements[number], place) for number in used}
        return value_of(expr, {**leaves, **(more or {})})

    # Stages.

    def _over_turns(self, body: Callable[[_Place], tuple[Statement, ...]]) -> Iterator[Statement]:
        """Yield what is done for each element of a thread; only the last turn may have threads without one."""
        schedule = self._schedule
        step = schedule.threads * schedule.lanes
        full, rest = divmod(self._length, step)
        if full > 1:
            turn = Var(self._names.new("turn"), full)
            bind = Bind.UNROLL if schedule.is_held else Bind.SERIAL
            yield For(turn, bind, self._turn(Index.of(turn), body))
        elif full:
            yield from self._turn(Index(), body)
        if rest:
            inside = Within(self._thread + full * schedule.threads, Index.of(self._length // schedule.lanes))
            yield If((inside,), self._turn(Index.of(full), body))

    def _turn(self, turn: Index, body: Callable[[_Place], tuple[Statement, ...]]) -> tuple[Statement, ...]:
        lanes = self._schedule.lanes
        first = turn * self._schedule.threads + self._thread
        if lanes == 1:
            return body(_Place(turn, first))
        lane = Var(self._names.new("lane"), lanes)
        return (For(lane, Bind.UNROLL, body(_Place(turn * lanes + lane, first, Index.of(lane)))),)

    def _spread(self, row_stage: RowStage) -> Iterator[Statement]:
        """Yield a stage that computes something of each element of a row, or of each row."""
        stage = row_stage.stage
        if not row_stage.inside:
            yield from self._of_row(row_stage, self._value(row_stage, stage.value, None))
            return
        held = None
        is_stored = stage.tensor in self._kept or not self._schedule.is_held
        if self._schedule.is_held and any(varies_of(stage.tensor, other) for other in self._stages):
            held = self._new_private(stage.tensor, stage.value.dtype)

        def body(place: _Place) -> tuple[Statement, ...]:
            value = self._value(row_stage, stage.value, place)
            at = rejoined(self._layouts[stage.tensor].address(stage.at).substituted(self._values(row_stage, place)))
            stores = [Store(self._buffers[stage.tensor], at, value)] if is_stored else []
            return (*stores, *([Store(held, place.held, value)] if held is not None else []))

        yield from self._over_turns(body)
        if held is not None:
            self._private[stage.tensor] = held

    def _folded(self, row_stage: RowStage) -> Iterator[Statement]:
        """Yield a fold: the part of each thread, the join of them, and the value that it makes of the total."""
        fold = row_stage.stage.fold
        if fold is None:
            return
        if row_stage.search is not None:
            yield from self._sought(row_stage, row_stage.search)
            return
        (total,) = fold.totals
        own = Register(self._names.new("total"), total.dtype)
        begin = identity(total)
        first = _Place(Index(), Index())
        yield Let(own.name, self._value(row_stage, begin, first))
        advanced = _advanced(total)

        def body(place: _Place) -> tuple[Statement, ...]:
            return (Set(own.name, self._value(row_stage, advanced, place, {~0: own})),)

        yield from self._over_turns(body)
        joined = tree.substitute(total.combine, {~0: tree.Input(0, total.dtype), ~1: tree.Input(1, total.dtype)})
        yield Join(self._thread, (Set(own.name, value_of(joined, {0: own, 1: Peer(own.name, own.dtype)})),))
        if total.start is not None and linearise(total.start) != linearise(begin):
            start = tree.substitute(total.combine, {~0: total.start, ~1: tree.Input(~0, total.dtype)})
            yield Set(own.name, self._value(row_stage, start, None, {~0: own}))
        yield from self._of_row(row_stage, self._value(row_stage, row_stage.stage.value, None, {~0: own}))

    def _sought(self, row_stage: RowStage, search: Search) -> Iterator[Statement]:
        """Yield a search: the best element of each thread and its place, and the join of them."""
        best = Register(self._names.new("best"), search.best.dtype)
        place = Register(self._names.new("place"), search.place.dtype)
        totals: dict[int, Leaf] = {~0: best, ~1: place}
        for register, total in ((best, search.best), (place, search.place)):
            if total.start is not None:
                yield Let(register.name, self._value(row_stage, total.start, None))

        def body(at: _Place) -> tuple[Statement, ...]:
            term = Register(self._names.new("term"), search.best.dtype)
            following = tree.substitute(search.place.combine, {~3: search.place.term})
            return (
                Let(term.name, self._value(row_stage, search.best.term, at)),
                Set(place.name, self._value(row_stage, following, at, {**totals, ~2: term})),
                Set(best.name, self._value(row_stage, search.best.combine, at, {**totals, ~2: term})),
            )

        yield from self._over_turns(body)
        peers = {2: Peer(best.name, best.dtype), 3: Peer(place.name, place.dtype)}
        wins, leaves = search.joined(), {0: best, 1: place, **peers}
        joined = [
            tree.select(wins, tree.Input(n + 2, r.dtype), tree.Input(n, r.dtype)) for n, r in ((0, best), (1, place))
        ]
        pairs = [Set(r.name, value_of(value, leaves)) for r, value in zip((best, place), joined, strict=True)]
        yield Join(self._thread, tuple(pairs))
        yield from self._of_row(row_stage, self._value(row_stage, row_stage.stage.value, None, totals))

    def _of_row(self, row_stage: RowStage, value: Value) -> Iterator[Statement]:
        """Yield what names the value of a row, and stores it where it is an output."""
        stage = row_stage.stage
        register = Register(self._names.new("row"), value.dtype)
        yield Let(register.name, value)
        self._scalars[stage.tensor] = register
        if stage.tensor in self._kept:
            at = self._layouts[stage.tensor].address(stage.at).substituted(self._values(row_stage, None))
            stored = Store(self._buffers[stage.tensor], at, value_of(tree.Input(0, register.dtype), {0: register}))
            yield If((Within(Index.of(self._thread), Index.of(1)),), (stored,))


def varies_of(tensor: str, other: RowStage) -> bool:
    """Return whether a stage reads elements of a tensor."""
    return any(isinstance(element, Read) and element.tensor == tensor for element in other.stage.elements)


def _advanced(total: Total) -> Expr:
    """Return the next value of a total, the product of its term and the sum in one rounding where there is such."""
    match total.combine, total.term:
        case tree.Apply("add"), tree.Apply("mul", (a, b), dtype) if dtype.is_float and dtype.bits >= 32:
            return tree.fma(a, b, tree.Input(~0, dtype))
        case _:
            return tree.substitute(total.combine, {~1: total.term})
