"""NumPy types in which elements are held in memory (specification ``dtypes.md``, section 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

if TYPE_CHECKING:
    from openinfer.dtypes import DType


def storage_type(dtype: DType) -> np.dtype[Any]:
    """Return the NumPy type of one element in memory; packed types are unpacked to one byte an element."""
    return np.dtype(getattr(ml_dtypes, dtype.storage, None) or dtype.storage)
