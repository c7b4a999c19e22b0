"""Counters as expressions: an element plus an amount, where integers wrap at their width."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import F32, I64
from openinfer.expr import tree

if TYPE_CHECKING:
    from openinfer.dtypes import DType
    from openinfer.expr.tree import Expr


def counting(dtype: DType, amount: float | None, *, down: bool = False) -> Expr:
    """Return ``Input(0)`` of ``dtype`` plus an amount, or minus it if ``down``.

    Args:
        amount: what `counted` returns; None: ``Input(1)``, an i64.
    """
    compute = counting_type(dtype)
    if amount is not None:
        return _plus(dtype, tree.literal(amount, compute))
    element, by = tree.cast(tree.Input(0, dtype), compute), tree.cast(tree.Input(1, I64), compute)
    return tree.cast(tree.sub(element, by) if down else tree.add(element, by), dtype)


def counting_by_given(dtype: DType) -> Expr:
    """Return ``Input(0)`` of ``dtype`` plus ``Input(1)``, which is what `counted` returns, of `counting_type`."""
    return _plus(dtype, tree.Input(1, counting_type(dtype)))


def counting_type(dtype: DType) -> DType:
    """Return the type that counters of ``dtype`` are computed in."""
    return F32 if dtype.is_low_float else dtype


def _plus(dtype: DType, amount: Expr) -> Expr:
    return tree.cast(tree.add(tree.cast(tree.Input(0, dtype), amount.dtype), amount), dtype)


def counted(amount: int, dtype: DType, *, down: bool = False) -> int | float:
    """Return a known amount with its sign as a number of a type: of integers modulo their width, inside the range."""
    signed = -amount if down else amount
    if dtype.is_float:
        return float(signed)
    low = dtype.minimum or 0
    return (signed - low) % (1 << dtype.bits) + low
