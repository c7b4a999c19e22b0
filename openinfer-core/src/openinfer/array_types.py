"""NumPy types in which elements are stored in memory (``specification: dtypes.types``)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.dtypes import BUILTIN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from openinfer.dtypes import DType


def storage_dtype(dtype: DType) -> np.dtype[Any]:
    """Return the NumPy type of one element in memory (packed types: of one unpacked element)."""
    if dtype.storage in ("bfloat16", "float8_e5m2"):
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, dtype.storage))
    return np.dtype(dtype.storage)


def need_room(shape: Sequence[int], itemsize: int) -> None:
    """Check that an array of a shape can exist, given the bytes of an element.

    Raises:
        MemoryError: its sizes have more than 64 bits, for which NumPy has errors of several kinds.
    """
    if math.prod(extent for extent in shape if extent) * itemsize >= 1 << 63:
        raise MemoryError("it passes the largest size of arrays")


_BY_STORAGE: Mapping[str, DType] = {dtype.storage: dtype for dtype in reversed(BUILTIN) if not dtype.is_packed}
"""The first type that is stored in memory as each NumPy type."""


def element_type(dtype: np.dtype[Any]) -> DType | None:
    """Return the element type that is stored in memory as a NumPy type, or None when OpenInfer has none for it."""
    return _BY_STORAGE.get(dtype.name)


def dtype_of_array(array: npt.NDArray[Any]) -> DType | None:
    """Return the element type of an array, or None when OpenInfer has none for it."""
    return element_type(array.dtype)
