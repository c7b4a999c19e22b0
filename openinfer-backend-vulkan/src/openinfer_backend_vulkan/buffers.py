"""Tensors in device memory, and what their elements look like to a shader.

Every element takes one word of 32 bits, of which narrow types use the lower ones: no optional feature for narrow
storage is needed, threads never share a word, and memory is what it costs. Integers are numbers, low floats their bits.
Elements of 64 bits take two words, the lower one first, as the host holds them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.dtypes import T1, Kind
from openinfer.packing import pack, unpack

if TYPE_CHECKING:
    import numpy.typing as npt

    from openinfer.dtypes import DType
    from openinfer.ir.types import TensorType
    from openinfer.simulate.backend import Buffer
    from openinfer_backend_vulkan.memory import StorageBuffer

    Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class VulkanBuffer:
    """A tensor in device memory."""

    type: TensorType
    storage: StorageBuffer


def own(buffer: Buffer) -> VulkanBuffer:
    """Return a buffer of this device as what it is.

    Raises:
        TypeError: it is memory of another device.
    """
    if not isinstance(buffer, VulkanBuffer):
        raise TypeError(f"expected a buffer of the device vulkan, found {type(buffer).__name__}")
    return buffer


def words(dtype: DType) -> int:
    """Return how many words of 32 bits an element takes."""
    return 2 if dtype.bits == 64 else 1


def device_nbytes(kind: TensorType) -> int:
    """Return the bytes that a tensor takes on the device."""
    return kind.count * words(kind.dtype) * 4


def glsl_word(dtype: DType) -> str:
    """Return the GLSL type of the word in which shaders that compute find an element of at most 32 bits."""
    return {"float32": "float", "int32": "int", "uint32": "uint"}[_word(dtype).name]


def glsl_bits(dtype: DType) -> str:
    """Return the GLSL type as which shaders that only move elements find one."""
    return "uvec2" if words(dtype) == 2 else "uint"


def zero_word(kind: TensorType) -> int:
    """Return the word of a tensor of zeros; of t1, whose code 0 is the number -1, that of this number."""
    return 0xFFFFFFFF if kind.dtype is T1 else 0


def to_words(kind: TensorType, array: Array) -> Array:
    """Return what device memory holds for a host array in storage form."""
    elements = unpack(array, kind.dtype, kind.shape) if kind.dtype.is_packed else array
    return stored_words(kind.dtype, elements)


def stored_words(dtype: DType, array: Array) -> Array:
    """Return what device memory holds for elements: one item an element, 64-bit ones as they are."""
    content = np.ascontiguousarray(array).reshape(-1)
    if words(dtype) == 2:
        return content
    if dtype.is_low_float:
        content = content.view(np.dtype(f"u{dtype.bits // 8}"))
    if dtype is T1:
        content = np.where(content == 1, np.int8(1), np.int8(-1))
    return content.astype(_word(dtype), copy=False)


def from_words(kind: TensorType, held: Array) -> Array:
    """Return the array in storage form, a private one, that the bytes of device memory hold."""
    dtype, element = kind.dtype, storage_dtype(kind.dtype)
    content = held[: device_nbytes(kind)]
    if words(dtype) == 2:
        return content.view(element).copy().reshape(kind.shape)
    found = content.view(_word(dtype))
    if dtype.is_low_float:
        return found.astype(np.dtype(f"u{dtype.bits // 8}")).view(element).reshape(kind.shape)
    elements = found.astype(element)
    return pack(elements, dtype) if dtype.is_packed else elements.reshape(kind.shape)


def _word(dtype: DType) -> np.dtype[Any]:
    """Return the NumPy type of the word that holds an element of at most 32 bits."""
    if dtype.is_float and not dtype.is_low_float:
        return np.dtype(np.float32)
    return np.dtype(np.int32 if dtype.kind in (Kind.SIGNED, Kind.TERNARY) else np.uint32)
