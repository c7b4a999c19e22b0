"""Arrays as they stand in the ``.npy`` files of a program: f8 and bf16 as their bits, packed types as their bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.packing import pack, unpack
from openinfer.synth.npy_harness import npy_descr

if TYPE_CHECKING:
    import numpy.typing as npt

    from openinfer.ir.types import TensorType

    Array = npt.NDArray[Any]


def file_form(array: Array, type: TensorType, steps: int | None) -> Array:
    """Return an array of the type's elements as the program reads it; ``steps`` of them on the first axis."""
    if not type.dtype.is_packed:
        return array.view(npy_descr(type.dtype))
    if steps is None:
        return pack(array, type.dtype)
    return np.stack([pack(each, type.dtype) for each in array])


def from_file(array: Array, type: TensorType, steps: int | None) -> Array:
    """Return what the program wrote as an array of the type's elements, packed ones a byte each."""
    if not type.dtype.is_packed:
        return array.view(storage_dtype(type.dtype))
    if steps is None:
        return unpack(array, type.dtype, type.shape)
    return np.stack([unpack(each, type.dtype, type.shape) for each in array])
