"""Earlier module name: packed elements of 1, 2 and 4 bits."""

from __future__ import annotations

# Makes the package importable from a checkout in which it is not installed.
import dataclass_to_oinf  # noqa: F401
import numpy as np
from numpy.typing import ArrayLike, NDArray

from openinfer_oinf.encoding import as_array, encode
from openinfer_oinf.packing import unpack
from openinfer_oinf.valuetypes import value_type

__all__ = ["pack_signed_bits", "pack_unsigned_bits", "unpack_signed_bits", "unpack_t1_bits", "unpack_unsigned_bits"]


def pack_signed_bits(values: ArrayLike, bits: int) -> bytes:
    """A bit stream of two's complement. Raises `OinfError` (E_VALUE) for values out of range."""
    return encode(as_array(values), value_type(f"i{bits}")).tobytes()


def pack_unsigned_bits(values: ArrayLike, bits: int) -> bytes:
    """A bit stream of plain numbers. Raises `OinfError` (E_VALUE) for values out of range."""
    return encode(as_array(values), value_type(f"u{bits}")).tobytes()


def unpack_signed_bits(data: bytes, bits: int, count: int) -> NDArray[np.int8]:
    """The first `count` elements of a bit stream of two's complement."""
    return unpack(np.frombuffer(data, np.uint8), value_type(f"i{bits}"), 0, count)


def unpack_unsigned_bits(data: bytes, bits: int, count: int) -> NDArray[np.uint8]:
    """The first `count` elements of a bit stream of plain numbers."""
    return unpack(np.frombuffer(data, np.uint8), value_type(f"u{bits}"), 0, count)


def unpack_t1_bits(data: bytes, count: int) -> NDArray[np.int8]:
    """The first `count` elements of a bit stream of -1 and 1."""
    return unpack(np.frombuffer(data, np.uint8), value_type("t1"), 0, count)
