"""Byte layout that both directions share: alignment, the header and the structs of table entries.

The numbers are those of the format description, sections 1.1 to 1.6; everything is little-endian and
nothing in the header is aligned, because the magic has five bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from struct import Struct

from .errors import Finding, OinfError

MAGIC = b"OINF\0"
INDEX_SUFFIX = ".oinf.index.json"
VERSIONS = (1, 2)
HEADER_BYTES = 72
WRITE_NDIM = 32
LONGEST_GAP = 4096

HAS_DATA = 1
HAS_QUANT = 2
KNOWN_FLAGS = {1: HAS_DATA, 2: HAS_DATA | HAS_QUANT}

U32 = Struct("<I")
U64 = Struct("<Q")
METADATA_FIELDS = Struct("<IIQQ")
TENSOR_FIELDS = Struct("<III")
TENSOR_PLACES = {1: Struct("<QQ"), 2: Struct("<QQQQ")}

SMALLEST_SIZEVAR = 16
SMALLEST_METADATA = 32
SMALLEST_TENSOR = {1: 36, 2: 52}

_HEADER = Struct("<5sIIIIIIQQQQQ3s")
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def up8(count: int) -> int:
    """`count` rounded up to a multiple of 8."""
    return (count + 7) & -8


def align_up(count: int, alignment: int) -> int:
    """`count` rounded up to a multiple of `alignment`, a power of two."""
    return (count + alignment - 1) & -alignment


def encode_string(text: str) -> bytes:
    """A String field: u32 length, ASCII bytes, zeros up to a multiple of 8 from the field's start."""
    raw = text.encode("ascii")
    return (U32.pack(len(raw)) + raw).ljust(up8(4 + len(raw)), b"\0")


def is_name(text: str) -> bool:
    """Whether a text keeps to the alphabet of names and string values."""
    return _NAME.fullmatch(text) is not None


def check_name(name: object, table: str, *, longest: int = 1024) -> str:
    """Return a name that may be written; raise `OinfError` (E_NAME) for any other."""
    if not isinstance(name, str):
        message = f"a name is a str, not {type(name).__name__}"
        raise OinfError(Finding(code="E_NAME", message=message, table=table))
    if not is_name(name) or len(name) > longest:
        message = f"{name[:80]!r} is not a name: 1 to {longest} of the characters A-Z a-z 0-9 . _ -"
        raise OinfError(Finding(code="E_NAME", message=message, table=table, entry=name[:80]))
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The 72 bytes at the start of a file; offsets are absolute."""

    magic: bytes = MAGIC
    version: int
    flags: int = 0
    n_sizevars: int
    n_metadata: int
    n_tensors: int
    reserved: int = 0
    offset_sizevars: int = HEADER_BYTES
    offset_metadata: int
    offset_tensors: int
    offset_data: int
    file_size: int
    padding: bytes = b"\0\0\0"

    def pack(self) -> bytes:
        return _HEADER.pack(*(getattr(self, name) for name in self.__slots__))

    @classmethod
    def unpack(cls, blob: bytes) -> Header:
        """Read the first 72 bytes of `blob`, checking nothing."""
        return cls(**dict(zip(cls.__slots__, _HEADER.unpack_from(blob, 0), strict=True)))


# Where each header field lies, for findings.
FIELD_OFFSET = {
    "magic": 0,
    "version": 5,
    "flags": 9,
    "n_sizevars": 13,
    "n_metadata": 17,
    "n_tensors": 21,
    "reserved": 25,
    "offset_sizevars": 29,
    "offset_metadata": 37,
    "offset_tensors": 45,
    "offset_data": 53,
    "file_size": 61,
    "padding": 69,
}
