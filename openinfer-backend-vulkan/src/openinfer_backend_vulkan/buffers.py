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


def stored_words(dtype: DType, array: Array) -> Array:
    """Return what memory holds for a host array in storage form: one item an element, 64-bit ones as they are."""
    content = np.ascontiguousarray(array).reshape(-1)
    if words(dtype) == 2:
        return content
    if dtype.is_low_float:
        content = content.view(np.dtype(f"u{dtype.bits // 8}"))
    if dtype is T1:
        content = np.where(content == 1, np.int8(1), np.int8(-1))
    return content.astype(_word(dtype))


def store(buffer: VulkanBuffer, array: Array) -> None:
    """Write a host array in storage form to a buffer."""
    kind = buffer.type
    elements = unpack(array, kind.dtype, kind.shape) if kind.dtype.is_packed else array
    found = stored_words(kind.dtype, elements)
    np.copyto(_view(buffer, found.dtype, found.size), found)


def load(buffer: VulkanBuffer) -> Array:
    """Return the content of a buffer in storage form, as a private array."""
    kind = buffer.type
    dtype, element = kind.dtype, storage_dtype(kind.dtype)
    if words(dtype) == 2:
        return _view(buffer, element, kind.count).copy().reshape(kind.shape)
    found = _view(buffer, _word(dtype), kind.count)
    if dtype.is_low_float:
        return found.astype(np.dtype(f"u{dtype.bits // 8}")).view(element).reshape(kind.shape)
    elements = found.astype(element)
    return pack(elements, dtype) if dtype.is_packed else elements.reshape(kind.shape)


def _word(dtype: DType) -> np.dtype[Any]:
    """Return the NumPy type of the word that holds an element of at most 32 bits."""
    if dtype.is_float and not dtype.is_low_float:
        return np.dtype(np.float32)
    return np.dtype(np.int32 if dtype.kind in (Kind.SIGNED, Kind.TERNARY) else np.uint32)


def clear(buffer: VulkanBuffer) -> None:
    """Set every element of a buffer to zero; one of t1, whose code 0 is the number -1, to that."""
    content = _view(buffer, np.dtype(np.uint8), buffer.storage.nbytes)
    content.fill(0xFF if buffer.type.dtype is T1 else 0)


def _view(buffer: VulkanBuffer, dtype: np.dtype[Any], count: int) -> Array:
    return np.frombuffer(buffer.storage.bytes, dtype, count)
