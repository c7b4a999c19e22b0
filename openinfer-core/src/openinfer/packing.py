"""Packed element types in host memory, several elements to a byte (``specification: dtypes.packing``).

The packing is that of the container, on core's element types.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer_oinf import packing
from openinfer_oinf.valuetypes import by_tag

if TYPE_CHECKING:
    import numpy.typing as npt

    from openinfer.dtypes import DType


def pack(values: npt.NDArray[Any], dtype: DType) -> npt.NDArray[np.uint8]:
    """Return the packed bytes of one-byte elements, reduced to the width of the type."""
    return packing.pack(values, by_tag(dtype.oinf_tag))


def unpack(stored: npt.NDArray[np.uint8], dtype: DType, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return the elements of packed bytes as int8, or uint8 for unsigned types."""
    elements = packing.unpack(stored.reshape(-1), by_tag(dtype.oinf_tag), 0, math.prod(shape))
    return elements.reshape(shape)


def repeated(code: int, dtype: DType, count: int) -> npt.NDArray[np.uint8]:
    """Return the bytes of ``count`` equal packed elements, ``code`` being one full byte; bits past the last are 0."""
    stored = np.full(dtype.storage_nbytes(count), code, np.uint8)
    used = count * dtype.bits % 8
    if used:
        stored[-1] &= (1 << used) - 1
    return stored
