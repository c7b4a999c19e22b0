"""Declarations as JSON (``specification: json.graphs``)."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, cast

from openinfer.ir.graph import AttrArg, MemoryKind, VarDecl
from openinfer.ir.language import ATTRIBUTES
from openinfer.serialize.elements import ELEMENT_SCHEMA, read_element, write_element
from openinfer.serialize.forms import (
    BOOLEAN,
    COUNT,
    DTYPE,
    EXPRESSION,
    IDENTIFIER,
    TEXT,
    Form,
    FormError,
    collected,
    list_of,
    members,
    one_of,
    plain,
    shown,
    wrong,
    wrong_type,
)
from openinfer.serialize.objects import Member, object_form
from openinfer.serialize.values import VALUE

if TYPE_CHECKING:
    from collections.abc import Mapping

_SECTIONS = {kind.json_tag: kind for kind in MemoryKind}
_SECTION: Form[MemoryKind] = Form(
    lambda kind: kind.json_tag,
    lambda value: _SECTIONS[one_of(value, _SECTIONS, "a memory section")],
    {"enum": list(_SECTIONS)},
)


def _pair(value: object, what: str) -> tuple[object, object]:
    if isinstance(value, list):
        items = cast("list[object]", value)
        if len(items) == 2:
            return items[0], items[1]
    raise wrong_type(f"expected {what}, found {shown(cast('object', value))}")


def pair_schema(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a list of two."""
    return {"type": "array", "prefixItems": [first, second], "minItems": 2, "maxItems": 2}


def _read_bound(value: object) -> tuple[str, int]:
    name, count = _pair(value, "a pair of name and integer")
    return IDENTIFIER.read(name), COUNT.read(count)


_BOUND: Form[tuple[str, int]] = Form(list, _read_bound, pair_schema(IDENTIFIER.schema, COUNT.schema))


def _write_argument(argument: AttrArg) -> Any:
    value = VALUE.write(argument.value)
    return value if argument.name is None else [argument.name, value]


def _read_argument(value: object) -> AttrArg:
    if not isinstance(value, list):
        return AttrArg(VALUE.read(value))
    name, value_written = _pair(cast("object", value), "a value, or a pair of name and value")
    return AttrArg(VALUE.read(value_written), IDENTIFIER.read(name))


_ARGUMENTS: Form[tuple[AttrArg, ...]] = list_of(
    Form(
        _write_argument,
        _read_argument,
        {"anyOf": [VALUE.schema, pair_schema(IDENTIFIER.schema, VALUE.schema)]},
    )
)
_UnknownAttributes = tuple[tuple[str, tuple[AttrArg, ...]], ...]


def _read_attribute(pair: tuple[str, object]) -> tuple[str, tuple[AttrArg, ...]]:
    name = IDENTIFIER.read(pair[0])
    if name in ATTRIBUTES:
        raise wrong(f"`{name}` is an attribute of the language: it has a field of its own")
    return name, _ARGUMENTS.read(pair[1])


def _read_attributes(value: object) -> _UnknownAttributes:
    items = members(value, "an object of attributes")
    return tuple(collected(((name, (name, item)) for name, item in items.items()), _read_attribute))


_ATTRIBUTES: Form[_UnknownAttributes] = Form(
    lambda attrs: {name: _ARGUMENTS.write(arguments) for name, arguments in attrs},
    _read_attributes,
    {"type": "object", "propertyNames": IDENTIFIER.schema, "additionalProperties": _ARGUMENTS.schema},
)


_MEMBERS = {
    "name": IDENTIFIER,
    "kind": _SECTION,
    "dtype": DTYPE,
    "dims": list_of(EXPRESSION),
    "init": Member(Form(plain, plain, ELEMENT_SCHEMA), load_default=None),
    "ref_name": Member(TEXT, load_default=None, attribute="ref"),
    "pattern": Member(TEXT, load_default=None),
    "table_indices": Member(list_of(IDENTIFIER), load_default=(), attribute="formals"),
    "table": Member(BOOLEAN, load_default=False),
    "auto_dim": Member(list_of(IDENTIFIER), load_default=()),
    "fixed": Member(list_of(_BOUND), load_default=()),
    "attrs": Member(_ATTRIBUTES, load_default=()),
}
"""Of a declaration. Files of older writers may leave out the fields with defaults."""


def _declaration(data: dict[str, Any]) -> VarDecl:
    if data["init"] is not None:
        try:
            data["init"] = read_element(data["dtype"], data["init"])
        except FormError as error:
            raise error.within("init") from error
    return VarDecl(**data)


_PARTS = tuple(part.name for part in fields(VarDecl) if part.compare)
"""What a declaration is made of, but for its places in a text."""


def _parts(decl: VarDecl) -> dict[str, object]:
    """Return the members of a declaration, without the extension field when it says nothing."""
    parts: dict[str, object] = {name: getattr(decl, name) for name in _PARTS}
    if decl.init is not None:
        parts["init"] = write_element(decl.dtype, decl.init)
    if not decl.attrs:
        del parts["attrs"]
    return parts


DECLARATION: Form[VarDecl] = object_form(_MEMBERS, _declaration, _parts)
