"""Values of settings, hints and attributes as JSON: one tag for each class (``specification: json.graphs``)."""

from __future__ import annotations

from typing import Any, cast

from openinfer.dtypes import BY_NAME
from openinfer.ir.language import DTYPE_SETTINGS, KNOWN_HINTS
from openinfer.ir.values import (
    Attrs,
    AttrValue,
    BoolValue,
    DoubleListValue,
    DoubleValue,
    DTypeListValue,
    DTypeValue,
    ExprListValue,
    ExprValue,
    FloatValue,
    IntListValue,
    IntValue,
    Number,
    Ref,
    StrValue,
    UIntValue,
    VarValue,
    number_value,
)
from openinfer.serialize.forms import (
    BOOLEAN,
    DTYPE,
    EXPRESSION,
    INTEGER,
    LIST_ELEMENT,
    NUMBER,
    REFERENCE,
    SETTING_NAME,
    TEXT,
    U64,
    Form,
    collected,
    integer,
    list_of,
    members,
    read_tagged,
    tagged_schema,
    wrong,
)
from openinfer.symbolic import Const, Name

_TAGS: dict[str, tuple[type, str, Form[Any]]] = {
    "Int": (IntValue, "value", INTEGER),
    "UInt": (UIntValue, "value", integer(*U64)),
    "Double": (DoubleValue, "value", NUMBER),
    "Float": (FloatValue, "value", NUMBER),
    "Bool": (BoolValue, "value", BOOLEAN),
    "Str": (StrValue, "value", TEXT),
    "IntList": (IntListValue, "values", list_of(INTEGER)),
    "DoubleList": (DoubleListValue, "values", list_of(NUMBER)),
    "Var": (VarValue, "ref", REFERENCE),
    "DType": (DTypeValue, "dtype", DTYPE),
    "DTypeList": (DTypeListValue, "dtypes", list_of(DTYPE)),
    "Expr": (ExprValue, "expr", EXPRESSION),
    "ExprList": (ExprListValue, "exprs", list_of(LIST_ELEMENT)),
}
_TAG_OF: dict[type, str] = {cls: tag for tag, (cls, _, _) in _TAGS.items()}
_FORMS: dict[str, Form[Any]] = {tag: form for tag, (_, _, form) in _TAGS.items()}


def _write(value: AttrValue) -> dict[str, Any]:
    if isinstance(value, VarValue) and isinstance(value.ref, Number):
        return _write(value.ref.value)
    tag = _TAG_OF[type(value)]
    _, attribute, form = _TAGS[tag]
    return {tag: form.write(getattr(value, attribute))}


def _read(value: object) -> AttrValue:
    tag, payload = read_tagged(value, _FORMS, "a value")
    return _as_written(_TAGS[tag][0](payload))


def _as_written(value: AttrValue) -> AttrValue:
    """Return a value that programs write in the same way as another one as that one.

    Raises:
        FormError: it is a list that no program can write.
    """
    if isinstance(value, ExprValue) and isinstance(value.expr, Const):
        return IntValue(value.expr.value)
    if isinstance(value, ExprValue) and isinstance(value.expr, Name):
        return VarValue(Ref(value.expr.name))
    if isinstance(value, ExprListValue):
        return _list_as_written(value)
    is_empty = (isinstance(value, DoubleListValue) and not value.values) or (
        isinstance(value, DTypeListValue) and not value.dtypes
    )
    return IntListValue(()) if is_empty else value


def _list_as_written(value: ExprListValue) -> AttrValue:
    integers = [expr.value for expr in value.exprs if isinstance(expr, Const)]
    if len(integers) == len(value.exprs):
        return IntListValue(tuple(integers))
    dtypes = [BY_NAME[expr.name] for expr in value.exprs if isinstance(expr, Name) and expr.name in BY_NAME]
    if dtypes and len(dtypes) < len(value.exprs):
        raise wrong(f"the list mixes the element type `{dtypes[0].name}` with other values").within("ExprList")
    return DTypeListValue(tuple(dtypes)) if dtypes else value


def named_value(name: str, value: AttrValue) -> AttrValue:
    """Return the value of a setting or hint of that name: some take the name of an element type as that type."""
    if not isinstance(value, VarValue) or value.ref.indices or name not in DTYPE_SETTINGS:
        return value
    dtype = BY_NAME.get(value.ref.name)
    return value if dtype is None else DTypeValue(dtype)


VALUE: Form[AttrValue] = Form(_write, _read, {"$ref": "#/$defs/value"})

_NUMBERS = {tag: _FORMS[tag] for tag in ("Int", "UInt", "Double", "Bool")}


def _write_input(ref: Ref) -> Any:
    return _write(ref.value) if isinstance(ref, Number) else REFERENCE.write(ref)


def _read_input(value: object) -> Ref:
    if not isinstance(value, dict):
        return REFERENCE.read(value)
    _, number = read_tagged(cast("object", value), _NUMBERS, "a number")
    return Number(value=number_value(number))


INPUT: Form[Ref] = Form(_write_input, _read_input, {"anyOf": [REFERENCE.schema, tagged_schema(_NUMBERS)]})
"""An input of an operator: a reference, or a number as the value of a setting is written."""

VALUE_SCHEMA = tagged_schema(_FORMS)
"""What the reference in the schema of `VALUE` refers to."""


def _write_hints(hints: Attrs) -> dict[str, Any]:
    return {name: VALUE.write(value) for name, value in hints.items()}


def _read_hint(pair: tuple[str, object]) -> tuple[str, AttrValue]:
    name = SETTING_NAME.read(pair[0])
    value, expected = VALUE.read(pair[1]), KNOWN_HINTS.get(name)
    if expected is not None and not isinstance(value, expected[0]):
        raise wrong(f"hint `{name}` takes {expected[1]}")
    return name, named_value(name, value)


def _read_hints(value: object) -> Attrs:
    items = members(value, "an object of values")
    return Attrs(tuple(collected(((name, (name, item)) for name, item in items.items()), _read_hint)))


HINTS: Form[Attrs] = Form(
    _write_hints,
    _read_hints,
    {"type": "object", "propertyNames": SETTING_NAME.schema, "additionalProperties": VALUE.schema},
)
"""Hints: an object from name to value."""
