"""Packed element types in host memory, several elements to a byte (``specification: dtypes.packing``)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from openinfer.dtypes import DType


def pack(values: npt.NDArray[Any], dtype: DType) -> npt.NDArray[np.uint8]:
    """Return the packed bytes of one-byte elements, reduced to the width of the type."""
    codes = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    if dtype.name == "t1":
        codes = (codes == 1).view(np.uint8)
    per_byte = 8 // dtype.bits
    padded = np.zeros(-(-codes.size // per_byte) * per_byte, np.uint8)
    padded[: codes.size] = codes & np.uint8((1 << dtype.bits) - 1)
    lanes = padded.reshape(-1, per_byte) << _shifts(dtype)
    return np.bitwise_or.reduce(lanes, axis=1, dtype=np.uint8)


def unpack(stored: npt.NDArray[np.uint8], dtype: DType, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return the elements of packed bytes as int8, or uint8 for unsigned types."""
    count = math.prod(shape)
    codes = ((stored.reshape(-1, 1) >> _shifts(dtype)) & np.uint8((1 << dtype.bits) - 1)).reshape(-1)[:count]
    if dtype.name == "t1":
        return (codes.view(np.int8) * np.int8(2) - np.int8(1)).reshape(shape)
    if dtype.minimum == 0:
        return codes.reshape(shape)
    high = np.uint8(8 - dtype.bits)
    return ((codes << high).view(np.int8) >> np.int8(high)).reshape(shape)


def repeated(code: int, dtype: DType, count: int) -> npt.NDArray[np.uint8]:
    """Return the bytes of ``count`` equal packed elements, ``code`` being one full byte; bits behind the last are 0."""
    stored = np.full(dtype.storage_nbytes(count), code, np.uint8)
    used = count * dtype.bits % 8
    if used:
        stored[-1] &= (1 << used) - 1
    return stored


def _shifts(dtype: DType) -> npt.NDArray[np.uint8]:
    return np.arange(0, 8, dtype.bits, dtype=np.uint8)
