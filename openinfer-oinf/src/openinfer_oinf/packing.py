"""Packed elements: 1, 2 or 4 bits each, one little-endian bit stream, lowest bits of a byte first."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .valuetypes import ValueType


def pack(values: NDArray[Any], value_type: ValueType) -> NDArray[np.uint8]:
    """Pack one-byte elements that are already known to be in range into `ceil(n * bits / 8)` bytes."""
    codes = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    if value_type.name == "t1":
        codes = (codes == 1).view(np.uint8)
    if value_type.bits == 1:
        return np.packbits(codes & np.uint8(1), bitorder="little")
    return _pack_lanes(codes, value_type.bits)


def _pack_lanes(codes: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    per_byte = 8 // bits
    missing = -codes.size % per_byte
    if missing:
        codes = np.concatenate([codes, np.zeros(missing, np.uint8)])
    lanes = codes.view(f"<u{per_byte}")
    mask = (1 << bits) - 1
    packed = np.zeros(lanes.shape, lanes.dtype)
    for position in range(per_byte):
        shift = position * (8 - bits)
        packed |= (lanes >> lanes.dtype.type(shift)) & lanes.dtype.type(mask << (position * bits))
    return packed.astype(np.uint8)


def unpack(stored: NDArray[np.uint8], value_type: ValueType, first: int, last: int) -> NDArray[Any]:
    """Elements `first` to `last` (not included) of a bit stream, as int8, or uint8 for unsigned types."""
    per_byte = 8 // value_type.bits
    start = first // per_byte
    table = _decoding_table(value_type)
    chunk = stored[start : -(-last // per_byte)]
    elements = np.take(table, chunk).view(_element_dtype(value_type))
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
