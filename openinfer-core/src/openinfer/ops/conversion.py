"""Conversion between element types as the operator ``cast`` does it (``specification: dtypes.conversion``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import BOOL
from openinfer.expr import tree

if TYPE_CHECKING:
    from openinfer.dtypes import DType
    from openinfer.expr.tree import Expr


def converted(x: Expr, target: DType) -> Expr:
    """Return a value of a compute type as ``target``, by the rules of ``cast`` with its defaults.

    What does not fit an integer type becomes its nearest limit, and floats lose their fraction.
    """
    if x.dtype.is_integer and not target.is_float and target is not BOOL:
        return tree.cast(clipped(x, target), target)
    return tree.cast(x, target)


def clipped(x: Expr, target: DType) -> Expr:
    """Return an integer clamped to the range of another integer type."""
    low, high = max(target.minimum or 0, x.dtype.minimum or 0), min(target.maximum or 0, x.dtype.maximum or 0)
    if low != x.dtype.minimum:
        x = tree.maximum(x, tree.literal(low, x.dtype))
    return x if high == x.dtype.maximum else tree.minimum(x, tree.literal(high, x.dtype))
