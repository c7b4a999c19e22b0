"""The value types of the container: tag, name, width and range of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .errors import Finding, OinfError

Kind = Literal["int", "uint", "float", "bool", "ternary", "bitset", "str", "ndarray"]


@dataclass(frozen=True, slots=True)
class ValueType:
    """One value type: file tag, name, bits of one element, kind, and the range of whole-number types."""

    tag: int
    name: str
    bits: int
    kind: Kind
    low: int = 0
    high: int = 0

    @property
    def is_packed(self) -> bool:
        """Whether several elements share a byte."""
        return self.bits in (1, 2, 4)

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def is_element(self) -> bool:
        """Whether tensors and metadata arrays may be made of it."""
        return self.kind not in ("bitset", "str", "ndarray")

    def stored_nbytes(self, count: int) -> int:
        """Bytes that `count` elements take in a file, padding not counted."""
        return (count * self.bits + 7) >> 3


def _signed(tag: int, bits: int) -> ValueType:
    return ValueType(tag, f"i{bits}", bits, "int", -(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def _unsigned(tag: int, bits: int) -> ValueType:
    return ValueType(tag, f"u{bits}", bits, "uint", 0, (1 << bits) - 1)


VALUE_TYPES: tuple[ValueType, ...] = (
    _signed(1, 8),
    _signed(2, 16),
    _signed(3, 32),
    _signed(4, 64),
    _unsigned(5, 8),
    _unsigned(6, 16),
    _unsigned(7, 32),
    _unsigned(8, 64),
    ValueType(9, "f16", 16, "float"),
    ValueType(10, "f32", 32, "float"),
    ValueType(11, "f64", 64, "float"),
    ValueType(12, "bool", 8, "bool", 0, 1),
    ValueType(13, "bitset", 8, "bitset", 0, 255),
    ValueType(14, "str", 0, "str"),
    ValueType(15, "ndarray", 0, "ndarray"),
    ValueType(16, "bf16", 16, "float"),
    ValueType(17, "f8", 8, "float"),
    _signed(18, 4),
    _signed(19, 2),
    _signed(20, 1),
    _unsigned(21, 4),
    _unsigned(22, 2),
    _unsigned(23, 1),
    ValueType(24, "t2", 2, "ternary", -1, 1),
    ValueType(25, "t1", 1, "ternary", -1, 1),
)

_BY_TAG = {each.tag: each for each in VALUE_TYPES}
_ALIASES = {"f8e5m2": "f8", "float8e5m2": "f8"}
_NAMED = {each.name: each for each in VALUE_TYPES}
_BY_NAME = _NAMED | {alias: _NAMED[name] for alias, name in _ALIASES.items()}

LAST_TAG = VALUE_TYPES[-1].tag

# Bits of one element by tag, 0 where the tag cannot be a tensor's; a bitset tensor reads as bytes.
TENSOR_BITS: tuple[int, ...] = (
    0,
    *(each.bits if each.is_element or each.kind == "bitset" else 0 for each in VALUE_TYPES),
)


def by_tag(tag: int) -> ValueType:
    """The value type of a tag already known to be valid (1 to 25)."""
    return _BY_TAG[tag]


def aliases_of(name: str) -> tuple[str, ...]:
    """The other names of a value type."""
    return tuple(alias for alias, named in _ALIASES.items() if named == name)


def value_type(spec: str | int | ValueType) -> ValueType:
    """The value type of a name (case and surrounding blanks are ignored), alias or raw tag.

    Raises `OinfError` (E_DTYPE) for anything else.
    """
    if isinstance(spec, ValueType):
        return spec
    found = _BY_NAME.get(spec.strip().lower()) if isinstance(spec, str) else _BY_TAG.get(spec)
    if found is None or isinstance(spec, bool):
        message = f"unknown value type {spec!r}; known are {', '.join(_BY_NAME)} and the tags 1 to {LAST_TAG}"
        raise OinfError(Finding(code="E_DTYPE", message=message))
    return found


def element_type(spec: str | int | ValueType) -> ValueType:
    """As `value_type`, but only types that tensors and arrays may be made of (E_DTYPE otherwise)."""
    found = value_type(spec)
    if not found.is_element:
        message = f"{found.name} is a metadata type and cannot be the element type of a tensor or an array"
        raise OinfError(Finding(code="E_DTYPE", message=message))
    return found
