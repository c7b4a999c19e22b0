"""Phase B for values: settings, hints and attribute arguments from the syntax tree to the graph's values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dsl.syntax import Indexed, Items, Literal, Sum
from openinfer.dtypes import BY_NAME
from openinfer.ir.language import DTYPE_SETTINGS
from openinfer.ir.values import (
    BoolValue,
    DoubleListValue,
    DoubleValue,
    DTypeListValue,
    DTypeValue,
    ExprListValue,
    ExprValue,
    IntListValue,
    IntValue,
    Ref,
    StrValue,
    VarValue,
)
from openinfer.symbolic import Const, Name

if TYPE_CHECKING:
    from openinfer.dsl.syntax import Value
    from openinfer.ir.values import AttrValue


class ListError(ValueError):
    """A list mixes values of incompatible types."""


def attr_value(value: Value, setting: str | None = None) -> AttrValue:
    """Return the graph's value of a written one; ``setting`` is the name it is given to.

    Raises:
        ListError: a list mixes elements of different kinds.
    """
    if isinstance(value, Literal):
        return literal_value(value.value)
    if isinstance(value, Indexed):
        return VarValue(value.ref)
    if isinstance(value, Items):
        return _list_value(value)
    if not isinstance(value.expr, Name):
        return ExprValue(value.expr)
    dtype = BY_NAME.get(value.expr.name) if setting in DTYPE_SETTINGS else None
    return DTypeValue(dtype) if dtype is not None else VarValue(Ref(value.expr.name))


def literal_value(value: int | float | bool | str) -> AttrValue:
    """Return the graph's value of a literal."""
    if isinstance(value, bool):
        return BoolValue(value)
    if isinstance(value, int):
        return IntValue(value)
    return DoubleValue(value) if isinstance(value, float) else StrValue(value)


def _list_value(value: Items) -> AttrValue:
    literals = [item.value for item in value.items if isinstance(item, Literal)]
    sums = [item for item in value.items if isinstance(item, Sum)]
    integers = [number for number in literals if isinstance(number, int) and not isinstance(number, bool)]
    numbers = [float(number) for number in literals if isinstance(number, int | float) and not isinstance(number, bool)]
    if len(numbers) < len(literals):
        raise ListError("a list holds numbers, element types or integer expressions, found a string or truth value")
    if sums:
        return _list_of_sums(value, sums, only_integers=len(integers) == len(literals))
    return IntListValue(tuple(integers)) if len(integers) == len(literals) else DoubleListValue(tuple(numbers))


def _list_of_sums(value: Items, sums: list[Sum], *, only_integers: bool) -> AttrValue:
    named = [item.expr.name for item in sums if isinstance(item.expr, Name)]
    dtypes = [BY_NAME[name] for name in named if name in BY_NAME]
    if dtypes and len(dtypes) == len(value.items):
        return DTypeListValue(tuple(dtypes))
    if dtypes:
        raise ListError(f"a list mixes the element type `{dtypes[0].name}` with other values")
    if not only_integers:
        raise ListError("a list mixes floats with integer expressions")
    return ExprListValue(tuple(item.expr if isinstance(item, Sum) else _const(item) for item in value.items))


def _const(item: Literal) -> Const:
    """Return an integer element of an expression list; it may be negative, such as the -1 of a shape."""
    return Const(int(item.value))
