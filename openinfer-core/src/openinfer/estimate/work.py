"""Operations and accesses of computations and loop programs, as upper bounds that hold for any data.

An operation is a function of an expression: an addition, a comparison, an exponential. A multiply-add is two; casts,
and arithmetic on indices, are none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.compute import Read
from openinfer.estimate.sizes import Extents
from openinfer.expr.linear import linearise
from openinfer.loops import Fail, For, If, Let, Lookup, Set, Store

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from openinfer.compute import Computation, Stage
    from openinfer.dims import Size
    from openinfer.expr.tree import Expr
    from openinfer.loops import Kernel, Statement

_ADDING = frozenset(("add", "fma"))

_PRODUCTS = {"dot2": 2, "dot4": 4, "sdot4": 4}
"""Functions that add several products at once, with their number."""

_MULTIPLYING = frozenset(("mul", "fma", "square", *_PRODUCTS))

_FREE = frozenset(("input", "literal", "cast"))

_BARE = Extents({})
"""Those of loop programs, which have no parameters."""


def operations(computation: Computation, extents: Extents) -> Size | None:
    """Return the operations of a computation; None where an extent may be anything."""
    return _sum(_stage_operations(stage, extents) for stage in computation.stages)


def multiply_accumulates(computation: Computation, extents: Extents) -> Size | None:
    """Return the terms of its sums that are products; None where an extent may be anything.

    This is what tables of networks call MACs: a product and an addition count as one, whatever scales or casts are in
    the term too.
    """
    return _sum(_stage_products(stage, extents) for stage in computation.stages if _sums_products(stage))


def kernel_operations(kernel: Kernel) -> Size | None:
    """Return the operations of a loop program; None where the length of a loop is known at run time only."""
    return _block_operations(kernel.body)


def reads_of(computation: Computation, extents: Extents) -> dict[str, Size | None]:
    """Return how often elements of each tensor are read, by name; None where that may be any number."""
    reads: dict[str, Size | None] = {}
    for stage in computation.stages:
        for number, element in enumerate(stage.elements):
            if isinstance(element, Read):
                before, times = reads.get(element.tensor, 0), _times_read(stage, number, extents)
                reads[element.tensor] = None if before is None or times is None else before + times
    return reads


def _times_read(stage: Stage, number: int, extents: Extents) -> Size | None:
    fold = stage.fold
    if fold is None:
        return extents.places(stage.axes)
    inside = [total.term for total in fold.totals] + [lookup.value for lookup in stage.folded_lookups]
    inside += [stage.value] if fold.running else []
    is_inside = any(number in linearise(expr).inputs for expr in inside)
    return extents.places(stage.all_axes if is_inside else stage.axes)


def _stage_operations(stage: Stage, extents: Extents) -> Size | None:
    fold = stage.fold
    folded_lookups = [lookup.value for lookup in stage.folded_lookups]
    each = [lookup.value for lookup in stage.lookups if lookup.value not in folded_lookups]
    stored = [stage.value, *(check.refused for check in stage.checks)]
    places = extents.places(stage.axes)
    if fold is None:
        return None if places is None else places * _count([*each, *stored])
    each += [total.start for total in fold.totals if total.start is not None]
    terms = [*folded_lookups, *(part for total in fold.totals for part in (total.term, total.combine))]
    (terms if fold.running else each).extend(stored)
    steps = extents.places(stage.all_axes)
    return None if places is None or steps is None else places * _count(each) + steps * _count(terms)


def _sum(counts: Iterable[Size | None]) -> Size | None:
    total: Size = 0
    for count in counts:
        if count is None:
            return None
        total = total + count
    return total


def _sums_products(stage: Stage) -> bool:
    return stage.fold is not None and any(
        _functions(total.combine) & _ADDING and (_functions(total.term) | _functions(total.combine)) & _MULTIPLYING
        for total in stage.fold.totals
    )


def _stage_products(stage: Stage, extents: Extents) -> Size | None:
    places = extents.places(stage.all_axes)
    totals = () if stage.fold is None else stage.fold.totals
    functions = {name for total in totals for part in (total.term, total.combine) for name in _functions(part)}
    return None if places is None else places * max((_PRODUCTS.get(name, 1) for name in functions), default=1)


def _functions(expr: Expr) -> frozenset[str]:
    return frozenset(instruction.function for instruction in linearise(expr).instructions)


def _count(expressions: Iterable[Expr]) -> int:
    functions = (i.function for expr in expressions for i in linearise(expr).instructions)
    return sum(2 * _PRODUCTS[name] if name in _PRODUCTS else name not in _FREE for name in functions)


def _block_operations(body: Sequence[Statement]) -> Size | None:
    return _sum(map(_statement_operations, body))


def _statement_operations(statement: Statement) -> Size | None:
    match statement:
        case For(var, _, body):
            times, inside = _BARE.most(var.extent), _block_operations(body)
            return None if times is None or inside is None else times * inside
        case If(_, body):
            return _block_operations(body)
        case Let(_, value) | Set(_, value) | Lookup(_, value) | Store(_, _, value):
            return _count([value.expr])
        case Fail(refused, _):
            return _count([refused.expr])
        case _:
            return 0
