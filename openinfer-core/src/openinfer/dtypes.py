"""Element types: names, widths, ranges and classes (``specification: dtypes.types``).

This module holds facts about types, those that files need as the container has them, and imports no array library. How
values are encoded and computed is the business of the container, of the expression renderers and of the backends.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from openinfer.errors import DTypeError
from openinfer_oinf.valuetypes import aliases_of, value_type

if TYPE_CHECKING:
    from collections.abc import Mapping


class Kind(Enum):
    """Class of an element type."""

    FLOAT = "float"
    SIGNED = "signed"
    UNSIGNED = "unsigned"
    BOOL = "bool"
    BITSET = "bitset"
    TERNARY = "ternary"


@dataclass(frozen=True, slots=True, kw_only=True)
class DType:
    """An element type.

    Attributes:
        name: name in programs and files, such as ``"f32"``.
        kind: class of the type.
        bits: width of one logical element.
        oinf_tag: value type tag in the container, or 0 for a type that files cannot hold.
        storage: NumPy dtype name of one element in memory (packed types: of one unpacked element);
            for bf16 and f8 the name of the ``ml_dtypes`` scalar.
        aliases: other spellings accepted in programs.
        minimum, maximum: range of integer types, inclusive; None for floats.
    """

    name: str
    kind: Kind
    bits: int
    oinf_tag: int
    storage: str
    aliases: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None

    def __hash__(self) -> int:
        # Types with one name rarely differ, and types are in nearly every key.
        return hash(self.name)

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"DType({self.name})"

    @property
    def is_float(self) -> bool:
        return self.kind is Kind.FLOAT

    @property
    def is_low_float(self) -> bool:
        """Whether this is f8, bf16 or f16: computed in f32 and rounded once per operator."""
        return self.kind is Kind.FLOAT and self.bits < 32

    @property
    def is_integer(self) -> bool:
        """Whether this is a signed or unsigned integer, packed ones included."""
        return self.kind in (Kind.SIGNED, Kind.UNSIGNED)

    @property
    def is_packed(self) -> bool:
        """Whether several elements share a byte in storage."""
        return self.bits < 8

    @property
    def json_tag(self) -> str:
        """Tag in graph JSON: upper case but for ``Bool`` and ``Bitset``."""
        return self.name.capitalize() if self.kind in (Kind.BOOL, Kind.BITSET) else self.name.upper()

    def storage_nbytes(self, count: int) -> int:
        """Return the bytes that ``count`` elements take in storage."""
        return (count * self.bits + 7) // 8


_KINDS: Mapping[str, Kind] = {
    "float": Kind.FLOAT,
    "int": Kind.SIGNED,
    "uint": Kind.UNSIGNED,
    "bool": Kind.BOOL,
    "bitset": Kind.BITSET,
    "ternary": Kind.TERNARY,
}
"""Class of an element type by the kind that the container calls it."""

_STORAGE: Mapping[str, str] = {"bf16": "bfloat16", "f8": "float8_e5m2", "bool": "bool", "bitset": "uint8"}
"""NumPy names that do not follow from kind and bits."""

_STORED_AS = {Kind.FLOAT: "float", Kind.UNSIGNED: "uint"}
"""What NumPy calls a kind, in front of the bits of an element; signed and ternary types are ``int``."""


def _dtype(name: str) -> DType:
    """Return an element type; number, width and range are those of the container's value type."""
    found = value_type(name)
    kind = _KINDS[found.kind]
    is_float = kind is Kind.FLOAT
    return DType(
        name=name,
        kind=kind,
        bits=found.bits,
        oinf_tag=found.tag,
        storage=_STORAGE.get(name) or f"{_STORED_AS.get(kind, 'int')}{max(found.bits, 8)}",
        aliases=aliases_of(name),
        minimum=None if is_float else found.low,
        maximum=None if is_float else found.high,
    )


F8, BF16, F16, F32, F64 = map(_dtype, ("f8", "bf16", "f16", "f32", "f64"))
I1, I2, I4, I8, I16, I32, I64 = (_dtype(f"i{bits}") for bits in (1, 2, 4, 8, 16, 32, 64))
U1, U2, U4, U8, U16, U32, U64 = (_dtype(f"u{bits}") for bits in (1, 2, 4, 8, 16, 32, 64))
BOOL, BITSET, T1, T2 = map(_dtype, ("bool", "bitset", "t1", "t2"))

BUILTIN: tuple[DType, ...] = (
    *(F8, BF16, F16, F32, F64),
    *(I1, I2, I4, I8, I16, I32, I64),
    *(U1, U2, U4, U8, U16, U32, U64),
    *(BOOL, BITSET, T1, T2),
)
"""The 23 types of the language."""

FLOAT = (F8, BF16, F16, F32, F64)
SINT = (I8, I16, I32, I64)
UINT = (U8, U16, U32, U64)
PACKED_SINT = (I1, I2, I4)
PACKED_UINT = (U1, U2, U4)
NUMERIC = (*FLOAT, *SINT, *UINT, *PACKED_SINT, *PACKED_UINT)

BY_NAME: Mapping[str, DType] = {spelling: dtype for dtype in BUILTIN for spelling in (dtype.name, *dtype.aliases)}
"""Every built-in type by name and alias."""

BY_JSON_TAG: Mapping[str, DType] = {dtype.json_tag: dtype for dtype in BUILTIN}
"""Every built-in type by its tag in graph JSON."""


def dtype_of(dtype: DType | str) -> DType:
    """Return an element type that a caller gives as itself or by name.

    Raises:
        DTypeError: ``unknown-dtype``, there is none of that name.
    """
    if isinstance(dtype, DType):
        return dtype
    if dtype not in BY_NAME:
        raise DTypeError(f"unknown dtype {dtype!r}; known: {', '.join(BY_NAME)}", code="unknown-dtype")
    return BY_NAME[dtype]


def dtype_named(name: str) -> DType:
    """Return the built-in type of that name or alias.

    Raises:
        KeyError: there is none; the message lists the names.
    """
    found = BY_NAME.get(name)
    if found is None:
        raise KeyError(f"unknown dtype {name!r}; known: {', '.join(d.name for d in BUILTIN)}")
    return found
