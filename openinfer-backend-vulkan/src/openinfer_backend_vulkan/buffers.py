"""Tensors in device memory, and what their elements look like to a shader.

Every element type that shaders compute in takes one word of 32 bits an element, bool and the narrow integers too: no
optional feature for narrow storage is needed, and memory is what it costs. Other types (64-bit, low floats, packed) are
held as the host holds them; they can be stored, copied, filled and read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.array_types import storage_dtype

if TYPE_CHECKING:
    import numpy.typing as npt

    from openinfer.dtypes import DType
    from openinfer.ir.types import TensorType
    from openinfer.simulate.backend import Buffer
    from openinfer_backend_vulkan.memory import StorageBuffer

    Array: TypeAlias = npt.NDArray[Any]

WORDS = {
    "f32": np.dtype(np.float32),
    "i32": np.dtype(np.int32),
    "i16": np.dtype(np.int32),
    "i8": np.dtype(np.int32),
    "u32": np.dtype(np.uint32),
    "u16": np.dtype(np.uint32),
    "u8": np.dtype(np.uint32),
    "bool": np.dtype(np.uint32),
}
"""NumPy type of the word that holds an element, for the types that shaders compute in."""

GLSL_WORDS = {"float32": "float", "int32": "int", "uint32": "uint"}
"""GLSL type of a word by its NumPy name."""


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


def device_nbytes(kind: TensorType) -> int:
    """Return the bytes that a tensor takes on the device."""
    return kind.count * 4 if kind.dtype.name in WORDS else kind.nbytes


def glsl_word(dtype: DType) -> str:
    """Return the GLSL type of the word that holds an element of a type that shaders compute in."""
    return GLSL_WORDS[WORDS[dtype.name].name]


def store(buffer: VulkanBuffer, array: Array) -> None:
    """Write a host array in storage form to a buffer."""
    content = np.ascontiguousarray(array).reshape(-1)
    word = WORDS.get(buffer.type.dtype.name)
    if word is not None:
        np.copyto(_view(buffer, word, content.size), content, casting="same_kind")
    else:
        raw = content.view(np.uint8)
        np.copyto(_view(buffer, np.dtype(np.uint8), raw.size), raw)


def load(buffer: VulkanBuffer) -> Array:
    """Return the content of a buffer in storage form, as a private array."""
    kind = buffer.type
    word = WORDS.get(kind.dtype.name)
    if word is not None:
        return _view(buffer, word, kind.count).astype(storage_dtype(kind.dtype)).reshape(kind.shape)
    raw = _view(buffer, np.dtype(np.uint8), kind.nbytes).copy()
    return raw if kind.dtype.is_packed else raw.view(storage_dtype(kind.dtype)).reshape(kind.shape)


def clear(buffer: VulkanBuffer) -> None:
    """Set every byte of a buffer to zero."""
    _view(buffer, np.dtype(np.uint8), buffer.storage.nbytes).fill(0)


def _view(buffer: VulkanBuffer, dtype: np.dtype[Any], count: int) -> Array:
    return np.frombuffer(buffer.storage.bytes, dtype, count)
