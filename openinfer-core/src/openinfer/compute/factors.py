"""Factors that all terms of a sum share: applied once, to the sum."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from openinfer.compute.stage import Order, Read, Total, places_of
from openinfer.expr import tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from openinfer.compute.stage import Fold, Stage
    from openinfer.expr.tree import Expr


def factored(stage: Stage, is_finite: Callable[[Read], bool]) -> Stage:
    """Return a stage whose sum is multiplied by the factors that its terms share, or the stage itself.

    Terms have the factors left that depend on folded axes. Others are taken out where they are finite: an infinite one
    makes NaN of a term that is zero, but not of its sum. As with other orders of a sum, what overflows may differ.

    Args:
        is_finite: whether every element of what is read is a finite number.
    """
    fold = stage.fold
    if fold is None or stage.lookups or not _adds_up(fold):
        return stage
    total = fold.totals[0]
    factors = tuple(_factors(total.term))
    shared = [factor for factor in factors if _is_shared(stage, fold, factor, is_finite)]
    own = [factor for factor in factors if factor not in shared]
    if not shared or not own:
        return stage
    value = _with_total(stage.value, reduce(tree.mul, shared, tree.Input(~0, total.dtype)))
    return replace(stage, value=value, fold=replace(fold, totals=(replace(total, term=reduce(tree.mul, own)),)))


def _adds_up(fold: Fold) -> bool:
    """Return whether a fold is a sum of floats from 0, in any order."""
    if fold.order is not Order.ANY or fold.running or len(fold.totals) != 1 or not fold.totals[0].dtype.is_float:
        return False
    match fold.totals[0]:
        case Total(tree.Literal(0.0), _, tree.Apply("add", (tree.Input(first), tree.Input(second)))):
            return {first, second} == {~0, ~1}
        case _:
            return False


def _factors(term: Expr) -> Iterator[Expr]:
    match term:
        case tree.Apply("mul", (first, second)):
            yield from _factors(first)
            yield from _factors(second)
        case _:
            yield term


def _is_shared(stage: Stage, fold: Fold, factor: Expr, is_finite: Callable[[Read], bool]) -> bool:
    """Return whether a factor is the same finite number in all terms: one that is read, in its type or a wider one."""
    match factor:
        case tree.Input(number) | tree.Apply("cast", (tree.Input(number),)) if number >= 0:
            read = stage.elements[number]
        case _:
            return False
    if not isinstance(read, Read) or not read.dtype.is_float or read.dtype.bits > factor.dtype.bits:
        return False
    return not any(index.variables() & set(fold.axes) for index in places_of(read)) and is_finite(read)


def _with_total(expr: Expr, total: Expr) -> Expr:
    match expr:
        case tree.Input(number) if number == ~0:
            return total
        case tree.Apply(function, args, dtype):
            return tree.Apply(function, tuple(_with_total(arg, total) for arg in args), dtype)
        case _:
            return expr
