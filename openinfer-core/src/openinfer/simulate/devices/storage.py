"""Arrays in storage form, as devices exchange them with the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.array_types import need_room, storage_dtype
from openinfer.packing import repeated
from openinfer.scalars import converted, repeated_code

if TYPE_CHECKING:
    import numpy.typing as npt

    from openinfer.ir.types import TensorType
    from openinfer.scalars import Scalar


def filled(type: TensorType, value: Scalar = 0) -> npt.NDArray[Any]:
    """Return a new array in storage form, every element of which is ``value``.

    It has the shape of the tensor and the NumPy (or ml_dtypes) type of its elements; packed types are bytes, ``uint8``
    of length ``type.nbytes``.

    Raises:
        MemoryError: not enough memory.
    """
    dtype = type.dtype
    if dtype.is_packed:
        need_room((type.nbytes,), 1)
        return repeated(repeated_code(dtype, value), dtype, type.count)
    item = storage_dtype(dtype)
    need_room(type.shape, item.itemsize)
    return np.full(type.shape, np.array(converted(dtype, value)).astype(item))
