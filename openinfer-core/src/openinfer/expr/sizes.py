"""Sizes that are known at run time only, as elements of an expression."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import I64
from openinfer.expr.tree import Size, cast, literal

if TYPE_CHECKING:
    from openinfer.dtypes import DType
    from openinfer.expr.tree import Expr
    from openinfer.scalars import Scalar


def number(value: Scalar, dtype: DType) -> Expr:
    """Return a constant of ``dtype``, or a size that is known at run time only, converted as `cast` says.

    Raises:
        ExprError: the constant does not fit.
    """
    as_index = getattr(type(value), "__affine__", None)
    return literal(value, dtype) if as_index is None else cast(Size(as_index(value), I64), dtype)
