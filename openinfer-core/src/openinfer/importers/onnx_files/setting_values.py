"""Settings of calls as the values that program text is printed from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dims import Dim
from openinfer.dtypes import DType
from openinfer.importers.onnx_files.sizes import expression, is_number
from openinfer.importers.onnx_files.values import Value
from openinfer.ir.values import (
    AttrValue,
    BoolValue,
    DoubleListValue,
    DoubleValue,
    DTypeValue,
    ExprListValue,
    ExprValue,
    IntListValue,
    IntValue,
    Ref,
    StrValue,
    VarValue,
)
from openinfer.symbolic import Name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.dims import Size
    from openinfer.importers.onnx_files.values import Setting
    from openinfer.symbolic import IntExpr


def attribute_of(value: Setting) -> AttrValue:
    """Return a setting; a `Value` is written by its name instead.

    Raises:
        TypeError: it is a `Value`.
    """
    match value:
        case bool():
            return BoolValue(value)
        case Dim():
            return _expression(expression(value))
        case int():
            return IntValue(value)
        case float():
            return DoubleValue(value)
        case str():
            return StrValue(value)
        case DType():
            return DTypeValue(value)
        case tuple():
            return _list(value)
        case Value():
            raise TypeError(value.name)


def _expression(expr: IntExpr) -> AttrValue:
    return VarValue(Ref(expr.name)) if isinstance(expr, Name) else ExprValue(expr)


def _list(values: Sequence[float | Size]) -> AttrValue:
    if any(isinstance(part, float) for part in values):
        return DoubleListValue(tuple(float(part) for part in values if isinstance(part, int | float)))
    numbers = tuple(part for part in values if is_number(part))
    if len(numbers) == len(values):
        return IntListValue(numbers)
    return ExprListValue(tuple(expression(part) for part in values if not isinstance(part, float)))
