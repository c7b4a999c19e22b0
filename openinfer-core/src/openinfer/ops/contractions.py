"""Sums of products as stages: the type that they are computed in, their terms, and the one rounding at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.compute import Order, Value
from openinfer.dtypes import BOOL, DType
from openinfer.expr import tree
from openinfer.ops.accumulate import delivered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Var
    from openinfer.compute import Builder
    from openinfer.ir.resolved import SettingValue


def product_of(factors: Sequence[Value], total: DType) -> Value:
    """Return the product of elements in the type of their sum: integers wrap, bool is AND."""
    first, *others = (factor.cast(total) for factor in factors)
    for other in others:
        first = Value(tree.logical_and(first.expr, other.expr)) if total is BOOL else first * other
    return first


def summed(k: Builder, term: Value, over: Sequence[Var]) -> Value:
    """Return the sum of a term over axes in any order: integers wrap, bool is OR; 0 over no terms."""
    if term.dtype is BOOL:
        return k.fold(term, over, tree.logical_or, start=False, order=Order.ANY)
    return k.sum(term, over, Order.ANY)


def rounded(total: Value, settings: Mapping[str, SettingValue], out: DType) -> Value:
    """Return a sum as the type of the result, as the setting ``acc`` says: converted with it, wrapped without."""
    return Value(delivered(total.expr, settings, out))
