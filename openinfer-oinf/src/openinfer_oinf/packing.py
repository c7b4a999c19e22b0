"""Packed elements: 1, 2 or 4 bits each, one little-endian bit stream, lowest bits of a byte first."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .valuetypes import ValueType

_BLOCK = 1 << 15  # stored bytes; with their elements they stay in the processor's cache


def pack(values: NDArray[Any], value_type: ValueType) -> NDArray[np.uint8]:
    """Pack one-byte elements that are already known to be in range into `ceil(n * bits / 8)` bytes."""
    codes = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    if value_type.name == "t1":
        codes = (codes == 1).view(np.uint8)
    if value_type.bits == 1:
        return np.packbits(codes & np.uint8(1), bitorder="little")
    return _pack_lanes(codes, value_type.bits)


def _pack_lanes(codes: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """Join the 2-bit or 4-bit codes of each byte of the result in one word; its lowest byte is kept.

    A shift moves each code next to the one before it; for 2 bits a second one brings the pairs together.
    """
    per_byte = 8 // bits
    word = np.dtype(f"<u{per_byte}")
    mask = int.from_bytes(bytes([(1 << bits) - 1]) * per_byte, "little")
    words = _padded(codes, per_byte).view(word) & word.type(mask)
    words |= words >> word.type(8 - bits)
    if bits == 2:
        words |= words >> word.type(12)
    return words.astype(np.uint8)


def _padded(codes: NDArray[np.uint8], multiple: int) -> NDArray[np.uint8]:
    missing = -codes.size % multiple
    return np.concatenate([codes, np.zeros(missing, np.uint8)]) if missing else codes


def unpack(stored: NDArray[np.uint8], value_type: ValueType, first: int, last: int) -> NDArray[Any]:
    """Elements `first` to `last` (not included) of a bit stream, as int8, or uint8 for unsigned types."""
    per_byte = 8 // value_type.bits
    start = first // per_byte
    chunk = stored[start : -(-last // per_byte)]
    elements = np.empty(chunk.size * per_byte, np.uint8 if value_type.kind == "uint" else np.int8)
    spread = _spread_bits if value_type.bits == 1 else _spread_lanes
    for at in range(0, chunk.size, _BLOCK):
        spread(chunk[at : at + _BLOCK], value_type, elements[at * per_byte : (at + _BLOCK) * per_byte])
    return elements[first - start * per_byte : last - start * per_byte]


def _spread_lanes(chunk: NDArray[np.uint8], value_type: ValueType, elements: NDArray[Any]) -> None:
    """Give each 2-bit or 4-bit code a byte of its own: the shifts of `_pack_lanes` the other way round."""
    bits = value_type.bits
    per_byte = 8 // bits
    words = elements.view(f"<u{per_byte}")
    words[:] = chunk
    if bits == 2:
        words |= words << words.dtype.type(12)
    words |= words << words.dtype.type(8 - bits)
    words &= words.dtype.type(int.from_bytes(bytes([(1 << bits) - 1]) * per_byte, "little"))
    if value_type.kind != "uint":
        # Two's complement of few bits: turning the sign bit round and taking its weight away extends it.
        elements ^= np.int8(1 << (bits - 1))
        elements -= np.int8(1 << (bits - 1))


def _spread_bits(chunk: NDArray[np.uint8], value_type: ValueType, elements: NDArray[Any]) -> None:
    # Every byte is a valid index; "clip" only spares the check that would buffer the output.
    np.take(_eight_elements(value_type), chunk, out=elements.view("<u8"), mode="clip")


@cache
def _eight_elements(value_type: ValueType) -> NDArray[np.uint64]:
    """For each byte, the eight elements it holds, joined into one word so that a lookup moves them at once."""
    codes = (np.arange(256)[:, None] >> np.arange(8)) & 1
    elements = {"t1": codes * 2 - 1, "i1": -codes, "u1": codes}[value_type.name]
    return np.ascontiguousarray(elements.astype(np.int8)).view("<u8").reshape(256)
