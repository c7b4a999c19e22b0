"""Packed elements: 1, 2 or 4 bits each, one little-endian bit stream, lowest bits of a byte first."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .valuetypes import ValueType

_BLOCK = 1 << 15  # bytes; what is read and written together stays in the processor's cache


def pack(values: NDArray[Any], value_type: ValueType) -> NDArray[np.uint8]:
    """Pack one-byte elements that are already known to be in range into `ceil(n * bits / 8)` bytes."""
    codes = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    if value_type.name == "t1":
        codes = (codes == 1).view(np.uint8)
    if value_type.bits == 1:
        return np.packbits(codes & np.uint8(1), bitorder="little")
    return _pack_lanes(codes, value_type.bits)


def _pack_lanes(codes: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """Join 2-bit or 4-bit codes, eight at a time in 64-bit words.

    A shift brings the code of each byte beside that of the byte before it; a second one (for 2 bits) brings pairs
    together. Only every second (fourth) byte is complete, and is kept.
    """
    per_byte = 8 // bits
    count = -(-codes.size // per_byte)
    words = _padded(codes, 8).view("<u8") & np.uint64(0x0101010101010101 * ((1 << bits) - 1))
    words |= words >> np.uint64(8 - bits)
    if bits == 2:
        words |= words >> np.uint64(12)
    return words.view(np.uint8)[::per_byte][:count].copy()


def _padded(codes: NDArray[np.uint8], multiple: int) -> NDArray[np.uint8]:
    missing = -codes.size % multiple
    return np.concatenate([codes, np.zeros(missing, np.uint8)]) if missing else codes


def unpack(stored: NDArray[np.uint8], value_type: ValueType, first: int, last: int) -> NDArray[Any]:
    """Elements `first` to `last` (not included) of a bit stream, as int8, or uint8 for unsigned types."""
    per_byte = 8 // value_type.bits
    start = first // per_byte
    table = _decoding_table(value_type)
    chunk = stored[start : -(-last // per_byte)]
    joined = np.empty(chunk.size, table.dtype)
    for at in range(0, chunk.size, _BLOCK):
        # Every byte is a valid index; "clip" only spares the check that would buffer the output.
        np.take(table, chunk[at : at + _BLOCK], out=joined[at : at + _BLOCK], mode="clip")
    elements = joined.view(_element_dtype(value_type))
    return elements[first - start * per_byte : last - start * per_byte]


def _element_dtype(value_type: ValueType) -> np.dtype[Any]:
    return np.dtype(np.uint8 if value_type.kind == "uint" else np.int8)


@cache
def _decoding_table(value_type: ValueType) -> NDArray[Any]:
    """For each byte, the elements it holds, joined into one integer so that a lookup moves them at once."""
    bits = value_type.bits
    per_byte = 8 // bits
    codes = (np.arange(256)[:, None] >> (np.arange(per_byte) * bits)) & ((1 << bits) - 1)
    if value_type.name == "t1":
        codes = codes * 2 - 1
    elif value_type.kind != "uint":
        codes = np.where(codes >= 1 << (bits - 1), codes - (1 << bits), codes)
    return np.ascontiguousarray(codes.astype(_element_dtype(value_type))).view(f"u{per_byte}").reshape(256)
