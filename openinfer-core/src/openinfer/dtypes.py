"""Element types: names, widths, ranges and classes (``specification: dtypes.types``).

This module holds facts about types and imports no array library. How values are encoded and computed is the
business of the container, of the expression renderers and of the backends.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

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
        compute: name of the type that kernels compute in (``"f32"`` for the low floats).
        aliases: other spellings accepted in programs.
        minimum, maximum: range of integer types, inclusive; None for floats.
    """

    name: str
    kind: Kind
    bits: int
    oinf_tag: int
    storage: str
    compute: str
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


def _float(name: str, bits: int, tag: int, storage: str, compute: str, *aliases: str) -> DType:
    return DType(name=name, kind=Kind.FLOAT, bits=bits, oinf_tag=tag, storage=storage, compute=compute, aliases=aliases)


def _signed(bits: int, tag: int) -> DType:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    storage = f"int{max(bits, 8)}"
    return DType(
        name=f"i{bits}",
        kind=Kind.SIGNED,
        bits=bits,
        oinf_tag=tag,
        storage=storage,
        compute="i64",
        minimum=low,
        maximum=high,
    )


def _unsigned(bits: int, tag: int) -> DType:
    storage = f"uint{max(bits, 8)}"
    return DType(
        name=f"u{bits}",
        kind=Kind.UNSIGNED,
        bits=bits,
        oinf_tag=tag,
        storage=storage,
        compute="u64",
        minimum=0,
        maximum=(1 << bits) - 1,
    )


F8 = _float("f8", 8, 17, "float8_e5m2", "f32", "f8e5m2", "float8e5m2")
BF16 = _float("bf16", 16, 16, "bfloat16", "f32")
F16 = _float("f16", 16, 9, "float16", "f32")
F32 = _float("f32", 32, 10, "float32", "f32")
F64 = _float("f64", 64, 11, "float64", "f64")
I1, I2, I4 = _signed(1, 20), _signed(2, 19), _signed(4, 18)
I8, I16, I32, I64 = _signed(8, 1), _signed(16, 2), _signed(32, 3), _signed(64, 4)
U1, U2, U4 = _unsigned(1, 23), _unsigned(2, 22), _unsigned(4, 21)
U8, U16, U32, U64 = _unsigned(8, 5), _unsigned(16, 6), _unsigned(32, 7), _unsigned(64, 8)
BOOL = DType(name="bool", kind=Kind.BOOL, bits=8, oinf_tag=12, storage="bool", compute="bool", minimum=0, maximum=1)
BITSET = DType(
    name="bitset",
    kind=Kind.BITSET,
    bits=8,
    oinf_tag=13,
    storage="uint8",
    compute="u64",
    minimum=0,
    maximum=255,
)
T1 = DType(name="t1", kind=Kind.TERNARY, bits=1, oinf_tag=25, storage="int8", compute="i64", minimum=-1, maximum=1)
T2 = DType(name="t2", kind=Kind.TERNARY, bits=2, oinf_tag=24, storage="int8", compute="i64", minimum=-1, maximum=1)

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


def dtype_named(name: str) -> DType:
    """Return the built-in type of that name or alias.

    Raises:
        KeyError: there is none; the message lists the names.
    """
    found = BY_NAME.get(name)
    if found is None:
        raise KeyError(f"unknown dtype {name!r}; known: {', '.join(d.name for d in BUILTIN)}")
    return found
