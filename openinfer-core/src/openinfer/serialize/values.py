"""Values of settings, hints and attributes as JSON: one tag for each class (``serialization.md``, section 2.7)."""

from __future__ import annotations

from typing import Any, cast

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
    Ref,
    StrValue,
    UIntValue,
    VarValue,
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
    tag = _TAG_OF[type(value)]
    _, attribute, form = _TAGS[tag]
    return {tag: form.write(getattr(value, attribute))}


def _read(value: object) -> AttrValue:
    tag, payload = read_tagged(value, _FORMS, "a value")
    return _as_written(_TAGS[tag][0](payload))


def _as_written(value: AttrValue) -> AttrValue:
    """Return an expression that is a lone integer or name as what a program would hold."""
    if isinstance(value, ExprValue) and isinstance(value.expr, Const):
        return IntValue(value.expr.value)
    if isinstance(value, ExprValue) and isinstance(value.expr, Name):
        return VarValue(Ref(value.expr.name))
    if isinstance(value, ExprListValue) and all(isinstance(expr, Const) for expr in value.exprs):
        return IntListValue(tuple(cast("Const", expr).value for expr in value.exprs))
    return value


VALUE: Form[AttrValue] = Form(_write, _read, {"$ref": "#/$defs/value"})

VALUE_SCHEMA = tagged_schema(_FORMS)
"""What stands behind the reference in the schema of `VALUE`."""


def _write_attrs(attrs: Attrs) -> dict[str, Any]:
    return {name: VALUE.write(value) for name, value in attrs.items()}


def _read_attrs(value: object) -> Attrs:
    items = members(value, "an object of values")
    pairs = collected(
        ((name, (name, item)) for name, item in items.items()),
        lambda pair: (SETTING_NAME.read(pair[0]), VALUE.read(pair[1])),
    )
    return Attrs(tuple(pairs))


ATTRS: Form[Attrs] = Form(
    _write_attrs,
    _read_attrs,
    {"type": "object", "propertyNames": SETTING_NAME.schema, "additionalProperties": VALUE.schema},
)
"""Hints: an object from name to value."""
