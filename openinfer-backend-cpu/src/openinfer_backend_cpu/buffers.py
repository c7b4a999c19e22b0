"""Memory of the device: arrays in storage form, and their elements unpacked for kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from openinfer.array_types import need_room, storage_dtype
from openinfer.packing import pack, unpack

if TYPE_CHECKING:
    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.ir.types import TensorType
    from openinfer.simulate.devices.backend import Buffer
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, eq=False)
class CpuBuffer:
    """A tensor in memory; ``array`` is in storage form (packed types: their bytes)."""

    type: TensorType
    array: Array


def empty(type: TensorType) -> CpuBuffer:
    """Return a buffer with undefined content.

    Raises:
        MemoryError: there is no such memory.
    """
    if type.dtype.is_packed:
        need_room((type.nbytes,), 1)
        return CpuBuffer(type, np.empty(type.nbytes, np.uint8))
    item = storage_dtype(type.dtype)
    need_room(type.shape, item.itemsize)
    return CpuBuffer(type, np.empty(type.shape, item))


def beginning(array: Array, type: TensorType) -> Array:
    """Return the beginning of a contiguous array as storage of another type of the same element."""
    flat = array.reshape(-1)
    return flat[: type.nbytes] if type.dtype.is_packed else flat[: type.count].reshape(type.shape)


def own(buffer: Buffer) -> CpuBuffer:
    """Return a buffer of this device as what it is.

    Raises:
        TypeError: it is memory of another device.
    """
    if not isinstance(buffer, CpuBuffer):
        raise TypeError(f"expected a buffer of the device cpu, found {type(buffer).__name__}")
    return buffer


@dataclass(slots=True)
class Elements:
    """The elements of a buffer, one to an array item.

    Attributes:
        array: an array in the tensor's shape; scratch memory for a packed type.
        load, store: copy from and to the packed bytes; None where the array is the buffer itself.
    """

    array: Array
    load: BoundCall | None = None
    store: BoundCall | None = None


def elements(buffer: CpuBuffer, workspace: Workspace) -> Elements:
    """Return the elements of a buffer."""
    kind = buffer.type
    if not kind.dtype.is_packed:
        return Elements(buffer.array)
    scratch = workspace.take(kind.shape, storage_dtype(kind.dtype))
    stored = cast("npt.NDArray[np.uint8]", buffer.array)

    def load() -> None:
        np.copyto(scratch, unpack(stored, kind.dtype, kind.shape))

    def store() -> None:
        np.copyto(stored, pack(scratch, kind.dtype))

    return Elements(scratch, load, store)
