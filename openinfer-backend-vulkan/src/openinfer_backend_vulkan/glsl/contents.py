"""What device memory holds of a tensor: the bytes of the host's storage form, filled up to whole words of 32 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer_backend_vulkan.glsl.elements import code_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from openinfer.dtypes import DType
    from openinfer.ir.types import TensorType
    from openinfer.scalars import Scalar

    Array: TypeAlias = npt.NDArray[Any]
    Bytes: TypeAlias = npt.NDArray[np.uint8]


def fill_word(dtype: DType, value: Scalar) -> int:
    """Return the word of a tensor of at most 32 bits an element all of whose elements have one value."""
    code, bits = code_of(dtype, value), dtype.bits
    return sum(code << shift for shift in range(0, 32, bits))


def bytes_of(array: Array) -> Bytes:
    """Return the bytes of a host array in storage form: what device memory holds."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def array_of(kind: TensorType, held: Bytes) -> Array:
    """Return bytes of device memory as an array in storage form; bits past the last packed element become zero."""
    if not kind.dtype.is_packed:
        return held.view(storage_dtype(kind.dtype)).reshape(kind.shape)
    used = kind.count * kind.dtype.bits % 8
    if used:
        held[-1] &= (1 << used) - 1
    return held
