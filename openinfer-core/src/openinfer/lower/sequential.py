"""Stages as serial loops: their axes as a schedule says, every sum in row-major order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.compute.stage import variables_of
from openinfer.dtypes import BOOL, I64
from openinfer.expr import tree
from openinfer.loops import (
    Fail,
    Let,
    Lookup,
    Number,
    Register,
    Set,
    Store,
    value_of,
)
from openinfer.lower.accesses import access
from openinfer.lower.nests import nest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer import compute
    from openinfer.compute import Fold, Stage
    from openinfer.expr.tree import Expr
    from openinfer.layout import Layout
    from openinfer.loops import Buffer, Leaf, Statement, Value
    from openinfer.lower.names import Names


class SequentialLowering:
    """Turns one stage into statements. Registers have names that no other stage of the kernel uses."""

    def __init__(
        self, stage: Stage, buffers: Mapping[str, Buffer], layouts: Mapping[str, Layout], names: Names
    ) -> None:
        self._names = names
        self._looked_up_as = {lookup.var: Index.of(names.lookup(lookup.var)) for lookup in stage.lookups}
        self._stage = stage
        self._buffers = buffers
        self._layouts = layouts
        self._leaves: dict[int, Leaf] = {number: self._leaf(e) for number, e in enumerate(stage.elements)}
        totals = () if stage.fold is None else stage.fold.totals
        self._totals = [Register(names.new("total"), total.dtype) for total in totals]
        self._first = Register(names.new("first"), BOOL)
        self._leaves |= {~number: register for number, register in enumerate(self._totals)}

    def levels(self) -> tuple[tuple[Statement, ...], ...]:
        """Return what is done inside of the first axes, by their number: lookups, and inside of all of them the rest.

        An index is looked up in the outermost loop where what it needs is known.
        """
        stage = self._stage
        rest: list[Statement] = []
        if stage.fold is None:
            rest += self._stored()
        else:
            rest += self._started(stage.fold)
            rest += nest(stage.fold.axes, tuple(self._advanced(stage.fold)))
            rest += () if stage.fold.running else self._stored()
        lookups = self._lookups_by_level()
        by_level = [tuple(self._looked_up(lookups.get(number, ()))) for number in range(len(stage.axes) + 1)]
        return (*by_level[:-1], (*by_level[-1], *rest))

    def _lookups_by_level(self) -> dict[int, list[compute.Lookup]]:
        """Return lookups by the number of axes that lie around them."""
        levels_of = {axis: number + 1 for number, axis in enumerate(self._stage.axes)}
        levels: dict[int, list[compute.Lookup]] = {}
        for lookup in self._stage.lookups:
            if lookup not in self._stage.folded_lookups:
                used = variables_of(lookup.value, self._stage.elements)
                levels_of[lookup.var] = max((levels_of[var] for var in used if var in levels_of), default=0)
                levels.setdefault(levels_of[lookup.var], []).append(lookup)
        return levels

    def _leaf(self, element: compute.Element) -> Leaf:
        accessed = access(element, self._buffers, self._layouts)
        return accessed.leaf(accessed.index(self._looked_up_as), accessed.tests(self._looked_up_as))

    def _looked_up(self, lookups: Sequence[compute.Lookup]) -> Iterator[Statement]:
        for lookup in lookups:
            extent = Index.of(0 if lookup.var.extent is None else lookup.var.extent)
            limit = {1: Number(extent, I64)}
            value = self._value(lookup.value)
            low = tree.lt(tree.Input(0, I64), tree.literal(0, I64))
            high = tree.ge(tree.Input(0, I64), tree.Input(1, I64))
            named = Register(self._names.new(f"{lookup.var.name}_value"), I64)
            yield Let(named.name, value)
            yield Fail(value_of(tree.logical_or(low, high), {0: named, **limit}), lookup.rule)
            (var,) = self._looked_up_as[lookup.var].variables()
            yield Lookup(var, value_of(tree.Input(0, I64), {0: named}))

    def _started(self, fold: Fold) -> Iterator[Statement]:
        for register, total in zip(self._totals, fold.totals, strict=True):
            zero = tree.literal(0, register.dtype)
            yield Let(register.name, self._value(zero if total.start is None else total.start))
        if self._starts_with_first_term(fold):
            yield Let(self._first.name, self._value(tree.literal(1, BOOL)))

    def _starts_with_first_term(self, fold: Fold) -> bool:
        return any(total.start is None for total in fold.totals)

    def _advanced(self, fold: Fold) -> Iterator[Statement]:
        """Yield what is done at each place: several totals change at once, after all of them are computed."""
        yield from self._looked_up(self._stage.folded_lookups)
        values = [self._combined(fold, number) for number in range(len(fold.totals))]
        if len(values) == 1:
            yield Set(self._totals[0].name, values[0])
        else:
            following = [Register(self._names.new(f"{total.name}_next"), total.dtype) for total in self._totals]
            for register, value in zip(following, values, strict=True):
                yield Let(register.name, value)
            for register, total in zip(following, self._totals, strict=True):
                yield Set(total.name, value_of(tree.Input(0, register.dtype), {0: register}))
        if self._starts_with_first_term(fold):
            yield Set(self._first.name, self._value(tree.literal(0, BOOL)))
        if fold.running:
            yield from self._stored()

    def _combined(self, fold: Fold, number: int) -> Value:
        """Return the next value of a total, with the terms written out in it."""
        total = fold.totals[number]
        terms: dict[int, Expr] = {~(len(fold.totals) + t): other.term for t, other in enumerate(fold.totals)}
        combined = tree.substitute(total.combine, terms)
        if total.start is not None:
            return self._value(combined)
        first = len(self._stage.elements)
        chosen = tree.select(tree.Input(first, BOOL), total.term, combined)
        return value_of(chosen, {**self._leaves, first: self._first})

    def _stored(self) -> Iterator[Statement]:
        stage = self._stage
        for check in stage.checks:
            yield Fail(self._value(check.refused), check.rule)
        address = self._named(self._layouts[stage.tensor].address(stage.at))
        yield Store(self._buffers[stage.tensor], address, self._value(stage.value))

    def _named(self, index: Index) -> Index:
        """Return an index over the variables that the loop program has for computed indices."""
        return index.substituted(self._looked_up_as) if self._looked_up_as else index

    def _value(self, expr: Expr) -> Value:
        return value_of(expr, self._leaves)
