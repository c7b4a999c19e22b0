"""NumPy types in which elements are held in memory (``specification: dtypes.types``)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.dtypes import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def dtype_of_array(array: npt.NDArray[Any]) -> DType | None:
    """Return the element type of an array, or None when OpenInfer has none for it."""
    name = array.dtype.name
    named = next((d for d in BY_NAME.values() if d.storage == name and not d.is_packed), None)
    return named if named is not None and array.dtype.kind != "O" else None
