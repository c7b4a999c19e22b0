"""Earlier module name: value types, their aliases and sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

# Makes the package importable from a checkout in which it is not installed.
import dataclass_to_oinf  # noqa: F401
import numpy as np

from openinfer_oinf.encoding import as_array, default_type
from openinfer_oinf.valuetypes import VALUE_TYPES, ValueType
from openinfer_oinf.valuetypes import value_type as dtype_from_alias

__all__ = ["VALUE_TYPES", "ValueType", "dtype_from_alias", "tensor_nbytes", "value_type_from_numpy_dtype"]


def value_type_from_numpy_dtype(dtype: Any) -> ValueType:
    """The value type that keeps a NumPy dtype. Raises `OinfError` (E_DTYPE) where there is none."""
    return default_type(as_array(np.empty(0, dtype)))


def tensor_nbytes(dtype: str | int | ValueType, shape: Iterable[int]) -> int:
    """Bytes that the values of a tensor take in a file, padding not counted."""
    return dtype_from_alias(dtype).stored_nbytes(math.prod(shape))
