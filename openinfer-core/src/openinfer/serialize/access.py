"""Cache accesses as JSON (``specification: json.graphs.3``)."""

from __future__ import annotations

from typing import Any

from openinfer.ir.nodes import CacheAccess, Single, Slice
from openinfer.serialize.forms import (
    BOOLEAN,
    EXPRESSION,
    IDENTIFIER,
    INTEGER,
    Form,
    FormError,
    Problem,
    list_of,
    read_tagged,
    tagged_schema,
)
from openinfer.serialize.objects import Member, object_form, record
from openinfer.symbolic import Const, IntExpr, Name

_INDICES: dict[str, Form[Any]] = {
    "Lit": Form(lambda expr: expr.value, lambda value: Const(INTEGER.read(value)), INTEGER.schema),
    "Ident": Form(lambda expr: expr.name, lambda value: Name(IDENTIFIER.read(value)), IDENTIFIER.schema),
    "Expr": EXPRESSION,
}


def _write_index(expr: IntExpr) -> dict[str, Any]:
    tag = "Lit" if isinstance(expr, Const) else "Ident" if isinstance(expr, Name) else "Expr"
    return {tag: _INDICES[tag].write(expr)}


_INDEX: Form[IntExpr] = Form(
    _write_index, lambda value: read_tagged(value, _INDICES, "an index")[1], tagged_schema(_INDICES)
)


_SLOTS: dict[str, Form[Any]] = {
    "Single": Form(lambda slot: _INDEX.write(slot.index), lambda value: Single(_INDEX.read(value)), _INDEX.schema),
    "Slice": record(Slice, start=Member(_INDEX, load_default=None), end=Member(_INDEX, load_default=None)),
}


def _write_slot(slot: Single | Slice) -> dict[str, Any]:
    tag = type(slot).__name__
    return {tag: _SLOTS[tag].write(slot)}


_SLOT: Form[Single | Slice] = Form(
    _write_slot, lambda value: read_tagged(value, _SLOTS, "a slot")[1], tagged_schema(_SLOTS)
)


def _build(data: dict[str, Any]) -> CacheAccess:
    if data["slots"] and not data["bracketed"]:
        message = "is false, although there are indices"
        raise FormError(Problem(message, path=("bracketed",), is_predicate=True))
    return CacheAccess(**data)


ACCESS: Form[CacheAccess] = object_form(
    {"base": IDENTIFIER, "bracketed": BOOLEAN, "indices": Member(list_of(_SLOT), attribute="slots")}, _build
)
"""A persistent variable with its slots."""
