"""One tile of a stage: copies of its statements side by side and in lanes, whose totals stay in registers."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, TypeAlias

from openinfer.affine import Index, Var, Within
from openinfer.expr import tree
from openinfer.expr.linear import linearise
from openinfer.loops import Across, Alloc, Bind, Buffer, For, Let, Load, Memory, Register, Set, Store, Value, value_of
from openinfer.lower.bodies import Body
from openinfer.lower.copies import Copies, neighbours
from openinfer.lower.placed import NARROWEST
from openinfer.schedule.folds import identity, joining

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from openinfer.compute import Fold, Total
    from openinfer.dtypes import DType
    from openinfer.expr.tree import Expr
    from openinfer.loops import Leaf, Statement
    from openinfer.lower.copies import Copy
    from openinfer.lower.names import Names
    from openinfer.lower.placed import PlacedStage


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A total in a register: one of lanes, where ``buffer`` is given, else a scalar."""

    name: str
    dtype: DType
    buffer: Buffer | None = None

    def leaf(self, lane: Var | None) -> Leaf:
        if self.buffer is None or lane is None:
            return Register(self.name, self.dtype)
        return Load(self.buffer, Index.of(lane))

    def started(self, lane: Var | None) -> Callable[[Value], Statement]:
        """Return what makes the statement that gives the total its first value."""
        return self._stored(lane, Let)

    def advanced(self, lane: Var | None) -> Callable[[Value], Statement]:
        """Return what makes the statement that gives the total another value."""
        return self._stored(lane, Set)

    def _stored(self, lane: Var | None, scalar: type[Let | Set]) -> Callable[[Value], Statement]:
        buffer, index = self.buffer, Index() if lane is None else Index.of(lane)
        if buffer is None:
            return lambda value: scalar(self.name, value)
        return lambda value: Store(buffer, index, value)


Totals: TypeAlias = "dict[tuple[tuple[int, ...], tuple[int, ...]], list[Accumulator]]"
TermBody: TypeAlias = "Callable[[Mapping[Var, Index], Mapping[Var, int]], tuple[Statement, ...]]"


class Tile:
    """Turns one tile into statements: ``left`` places of each axis, from ``at`` on."""

    def __init__(self, stage: PlacedStage, names: Names, at: Mapping[Var, Index], left: Mapping[Var, int]) -> None:
        self._placed = stage
        self._stage = stage.stage
        self._names = names
        self._at = at
        self._left = left
        lanes = stage.lanes_of(left)
        self._lane = Var(names.new("l"), lanes) if lanes > 1 else None
        # Of totals: those to which all lanes are added are scalars.
        self._own_lane = None if stage.is_joined else self._lane
        loops = stage.schedule.loops
        self._copied = [number for number, loop in enumerate(loops) if loop.is_copied]
        self._own = [number for number in self._copied if loops[number].axis not in stage.folded]
        self._parts = [number for number in self._copied if loops[number].partial]
        self._outs = self._copies(self._own, left)

    def statements(self, terms: Callable[[TermBody], tuple[Statement, ...]]) -> tuple[Statement, ...]:
        """Return the statements of the tile.

        ``terms`` puts the serial loops over folded axes around a body: a function of where each axis begins inside of
        them, and how many of its places are left.
        """
        fold = self._stage.fold
        if fold is None:
            return self._stored([{} for _ in self._outs], self._before_terms(), self._lane)
        totals = self._accumulators(fold)
        statements = [*self._started(fold, totals)]
        if fold.running:
            return (*statements, *terms(lambda at, left: self._run_on(fold, totals, at, left)))
        statements += terms(lambda at, left: self._advanced(fold, totals, at, left))
        statements += self._joined(fold, totals)
        first = {out: parts[0] for out, parts in enumerate(self._by_out(totals))}
        if self._placed.is_joined:
            joined = [total for (total,) in first.values()]
            statements += self._placed.terms_without_lanes(lambda at: self._one_by_one(fold.totals[0], joined, at))
            return (*statements, *self._stored_in_rows(joined))
        if not self._placed.is_across:
            leaves = [{~t: total.leaf(self._lane) for t, total in enumerate(first[out])} for out in first]
            return (*statements, *self._stored(leaves, self._before_terms(), self._lane))
        scalars = [Accumulator(self._names.new("across"), fold.totals[0].dtype) for _ in first]
        statements += self._across(fold.totals[0], [first[out][0] for out in first], scalars)
        leaves = [{~0: scalar.leaf(None)} for scalar in scalars]
        return (*statements, *self._stored(leaves, self._before_terms(), None))

    def _copies(self, numbers: Sequence[int], left: Mapping[Var, int]) -> list[Copy]:
        return self._placed.copies(numbers, left, in_lanes=self._lane is not None)

    def _accumulators(self, fold: Fold) -> Totals:
        """Return the totals of each copy and part, by their offsets."""
        parts = self._part_offsets()
        types = [total.dtype for total in fold.totals]
        return {
            (out.of(self._own), part): [self._accumulator(dtype) for dtype in types]
            for out in self._outs
            for part in parts
        }

    def _part_offsets(self) -> list[tuple[int, ...]]:
        spans = {axis: self._placed.longest(axis) for axis in self._placed.folded}
        return [copy.of(self._parts) for copy in self._copies(self._parts, spans)]

    def _by_out(self, totals: Totals) -> list[list[list[Accumulator]]]:
        """Return the totals of the parts of each copy."""
        parts = self._part_offsets()
        return [[totals[out.of(self._own), part] for part in parts] for out in self._outs]

    def _accumulator(self, dtype: DType) -> Accumulator:
        name = self._names.new("total")
        if self._own_lane is None:
            return Accumulator(name, dtype)
        return Accumulator(name, dtype, Buffer(name, dtype, Index.of(self._own_lane.extent or 0), Memory.PRIVATE))

    def _in_lanes(self, statements: Iterator[Statement], lane: Var | None) -> tuple[Statement, ...]:
        body = tuple(statements)
        return (For(lane, Bind.LANES, body),) if lane is not None and body else body

    def _leaves(
        self,
        copies: Sequence[Copy],
        at: Mapping[Var, Index],
        lane: Var | None,
        exprs: Sequence[Expr | None],
        held: Collection[Within] = (),
    ) -> list[dict[int, Leaf]]:
        """Return the elements that expressions use, for each copy, where some tests hold; equal ones are one object."""
        used = {number for expr in exprs if expr is not None for number in linearise(expr).inputs if number >= 0}
        return Copies(copies, self._in_lane(at, lane)).leaves({n: self._placed.accesses[n] for n in sorted(used)}, held)

    def _in_lane(self, at: Mapping[Var, Index], lane: Var | None) -> Mapping[Var, Index]:
        loop = self._placed.schedule.lanes
        return at if lane is None or loop is None else {**at, loop.axis: at[loop.axis] + lane}

    def _before_terms(self) -> Mapping[Var, Index]:
        """Return the place of the first copy, and of the first term."""
        return {**self._at, **{axis: Index() for axis in self._placed.folded}}

    def _started(self, fold: Fold, totals: Totals) -> Iterator[Statement]:
        body, lane = Body(self._names), self._own_lane
        firsts = [_first(total) for total in fold.totals]
        # Lanes of partial totals begin with the same value.
        first_leaves = self._leaves(self._outs, self._before_terms(), None if self._placed.is_across else lane, firsts)
        for leaves, parts in zip(first_leaves, self._by_out(totals), strict=True):
            for part, accumulators in enumerate(parts):
                for total, first, accumulator in zip(fold.totals, firsts, accumulators, strict=True):
                    if accumulator.buffer is not None:
                        yield Alloc(accumulator.buffer)
                    begins = part == 0 and (self._placed.is_joined or not self._placed.is_across)
                    body.put(accumulator.started(lane), first if begins else identity(total), leaves)
        yield from self._in_lanes(body.statements(), lane)

    def _advanced(
        self,
        fold: Fold,
        totals: Totals,
        at: Mapping[Var, Index],
        left: Mapping[Var, int],
    ) -> tuple[Statement, ...]:
        """Return the statements for the terms of one iteration of the serial loops over folded axes."""
        copies, lane = self._copies(self._copied, left), self._lane
        nexts = [_next(fold, number, self._placed.fused) for number in range(len(fold.totals))]
        kept = self._kept(copies, at, lane)
        leaves = self._leaves(copies, at, lane, nexts, self._placed.tests_around(at, left))
        work = [(copy, own) for copy, own, keep in zip(copies, leaves, kept, strict=True) if keep]
        stream = self._placed.schedule.stream
        # Loads are shared where they follow one another: among the copies of one term, or as the stream passes by.
        terms = [number for number in self._copied if number not in self._own and number not in self._parts]
        groups = (
            [_by_address(work, stream)]
            if stream is not None
            else [list(group) for _, group in groupby(work, key=lambda entry: entry[0].of(terms))]
        )
        statements: list[Statement] = []
        for group in groups:
            # Vectors of bytes have no names of their own: what is shared of them are conversions.
            body = Body(self._names, is_shared=not self._placed.is_joined)
            for copy, leaves in group:
                accumulators = totals[copy.of(self._own), copy.of(self._parts)]
                inputs = {**leaves, **{~number: total.leaf(lane) for number, total in enumerate(accumulators)}}
                _advance(body, accumulators, nexts, inputs, lane, self._names)
            statements += body.statements()
        return self._in_lanes(iter(statements), lane)

    def _kept(self, copies: Sequence[Copy], at: Mapping[Var, Index], lane: Var | None) -> list[bool]:
        """Return for each copy whether its term may be another than zero."""
        kept = [True] * len(copies)
        here = Copies(copies, self._in_lane(at, lane))
        for test in self._placed.tests_of_terms():
            indices = here.indices(test.index.substituted)
            kept = [keep and not Within(i, test.extent).is_void for keep, i in zip(kept, indices, strict=True)]
        return kept

    def _joined(self, fold: Fold, totals: Totals) -> tuple[Statement, ...]:
        """Return the combination of partial totals, neighbours first."""
        body, lane = Body(self._names), self._own_lane
        for parts in self._by_out(totals):
            step = 1
            while step < len(parts):
                for position in range(0, len(parts) - step, 2 * step):
                    (total,), (other,) = parts[position], parts[position + step]
                    pair = {~0: total.leaf(lane), ~1: other.leaf(lane)}
                    body.put(total.advanced(lane), fold.totals[0].combine, pair)
                step *= 2
        return self._in_lanes(body.statements(), lane)

    def _across(
        self, total: Total, registers: Sequence[Accumulator], scalars: Sequence[Accumulator]
    ) -> Iterator[Statement]:
        """Yield the totals over all lanes, then over the terms that fill no lanes, one by one."""
        begun = (
            tree.Input(~1, total.dtype) if total.start is None else tree.substitute(total.combine, {~0: total.start})
        )
        body = Body(self._names)
        for leaves, register, scalar in zip(
            self._leaves(self._outs, self._before_terms(), None, [begun]), registers, scalars, strict=True
        ):
            if register.buffer is None:
                raise TypeError(f"{register.name} is a scalar, and has no lanes to be combined")
            across = Register(self._names.new("lanes"), total.dtype)
            yield Let(across.name, Value(tree.Input(0, across.dtype), (Across(joining(total) or "", register.buffer),)))
            body.put(scalar.started(None), begun, {**leaves, ~1: across})
        yield from body.statements()
        yield from self._placed.terms_without_lanes(lambda at: self._one_by_one(total, scalars, at))

    def _one_by_one(
        self, total: Total, scalars: Sequence[Accumulator], at: Mapping[Var, Index]
    ) -> tuple[Statement, ...]:
        body = Body(self._names)
        following = tree.substitute(total.combine, {~1: total.term})
        for leaves, scalar in zip(
            self._leaves(self._outs, {**self._at, **at}, None, [following]), scalars, strict=True
        ):
            body.put(scalar.advanced(None), following, {**leaves, ~0: scalar.leaf(None)})
        return tuple(body.statements())

    def _run_on(
        self, fold: Fold, totals: Totals, at: Mapping[Var, Index], left: Mapping[Var, int]
    ) -> tuple[Statement, ...]:
        """Return the statements for one term of a running fold: what its totals are then is stored."""
        lane = self._lane
        leaves = [{~t: total.leaf(lane) for t, total in enumerate(parts[0])} for parts in self._by_out(totals)]
        return (*self._advanced(fold, totals, at, left), *self._stored(leaves, at, lane))

    def _stored(
        self,
        totals: Sequence[Mapping[int, Leaf]],
        at: Mapping[Var, Index],
        lane: Var | None,
        outs: Sequence[Copy] | None = None,
    ) -> tuple[Statement, ...]:
        """Return the statements that store the value of each copy, or of some of them."""
        body, copies = Body(self._names), self._outs if outs is None else outs
        addresses = Copies(copies, self._in_lane(at, lane)).indices(self._placed.address)
        leaves = self._leaves(copies, at, lane, [self._stage.value])
        for read, address, total in zip(leaves, addresses, totals, strict=True):
            body.put(_store(self._placed.buffer, address), self._stage.value, {**read, **total})
        return self._in_lanes(body.statements(), lane)

    def _stored_in_rows(self, totals: Sequence[Accumulator]) -> tuple[Statement, ...]:
        """Return the statements that store the value of each copy, those of neighbours in lanes."""
        address = self._placed.address({})
        axis = next((axis for axis in self._stage.axes if address.coefficient(axis) == 1), None)
        rows = neighbours(self._outs, axis, NARROWEST)
        statements: list[Statement] = []
        vectors: list[Buffer] = []
        for row in rows:
            vectors.append(Buffer(self._names.new("totals"), totals[0].dtype, Index.of(NARROWEST), Memory.PRIVATE))
            statements.append(Alloc(vectors[-1]))
            for position, out in enumerate(row):
                total = totals[out].leaf(None)
                statements.append(
                    Store(vectors[-1], Index.of(position), value_of(tree.Input(0, total.dtype), {0: total}))
                )
        if axis is not None and rows:
            lane = Var(self._names.new("l"), NARROWEST)
            at = {**self._before_terms(), axis: self._before_terms()[axis] + lane}
            leaves = [{~0: Load(vector, Index.of(lane))} for vector in vectors]
            stored = self._stored(leaves, at, None, [self._outs[row[0]] for row in rows])
            statements += self._in_lanes(iter(stored), lane)
        alone = [out for out in range(len(totals)) if not any(out in row for row in rows)]
        leaves = [{~0: totals[out].leaf(None)} for out in alone]
        return (*statements, *self._stored(leaves, self._before_terms(), None, [self._outs[out] for out in alone]))


def _advance(
    body: Body,
    totals: Sequence[Accumulator],
    nexts: Sequence[Expr],
    leaves: Mapping[int, Leaf],
    lane: Var | None,
    names: Names,
) -> None:
    """Append the next values of totals: several change at once, after all of them are computed."""
    if len(totals) == 1:
        body.put(totals[0].advanced(lane), nexts[0], leaves)
        return
    following = [Register(names.new(f"{total.name}_next"), total.dtype) for total in totals]
    for register, value in zip(following, nexts, strict=True):
        body.put(_let(register.name), value, leaves)
    for register, total in zip(following, totals, strict=True):
        body.put(total.advanced(lane), tree.Input(~0, total.dtype), {~0: register})


def _first(total: Total) -> Expr:
    return total.term if total.start is None else total.start


def _next(fold: Fold, number: int, fused: bool) -> Expr:
    """Return the next value of a total over elements and totals."""
    total = fold.totals[number]
    if fused and joining(total) == "add":
        match total.term:
            case tree.Apply("mul", (a, b), dtype) if dtype.is_float:
                return tree.fma(a, b, tree.Input(~0, dtype))
            case _:
                pass
    if joining(total) == "add":
        match total.term:
            case tree.Apply("dot2" | "dot4" | "sdot4" as function, (a, b, tree.Literal(0)), dtype):
                return tree.Apply(function, (a, b, tree.Input(~0, dtype)), dtype)
            case _:
                pass
    terms: dict[int, Expr] = {~(len(fold.totals) + t): other.term for t, other in enumerate(fold.totals)}
    return tree.substitute(total.combine, terms)


def _by_address(work: list[tuple[Copy, dict[int, Leaf]]], stream: int) -> list[tuple[Copy, dict[int, Leaf]]]:
    """Return copies, sorted by the address of an element in each."""

    def distance(entry: tuple[Copy, dict[int, Leaf]]) -> int:
        leaf = entry[1][stream]
        return leaf.address.evaluate({v.name: 0 for v in leaf.address.variables()}) if isinstance(leaf, Load) else 0

    return sorted(work, key=distance)


def _let(name: str) -> Callable[[Value], Statement]:
    return lambda value: Let(name, value)


def _store(buffer: Buffer, address: Index) -> Callable[[Value], Statement]:
    return lambda value: Store(buffer, address, value)
