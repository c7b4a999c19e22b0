"""Memory of the device: arrays of the library, which lie where only the library reaches them, as on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import array_api_strict as xp
import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from openinfer.plugin import TensorType

HostArray: TypeAlias = "npt.NDArray[Any]"
"""An array in storage form, as core gives and takes it."""

HERE = xp.Device("device1")
"""Where arrays lie. NumPy cannot read them there, so that no function of NumPy is called by mistake."""

DTYPES = {
    "bool": xp.bool,
    **{name: getattr(xp, f"int{name[1:]}") for name in ("i8", "i16", "i32", "i64")},
    **{name: getattr(xp, f"uint{name[1:]}") for name in ("u8", "u16", "u32", "u64")},
    **{name: getattr(xp, f"float{name[1:]}") for name in ("f32", "f64")},
}
"""Element types that the library computes in."""


@dataclass(eq=False)
class Memory:
    """Memory that holds one tensor.

    Attributes:
        storage: the NumPy type of its storage form.
        array: of the library. It is never changed: who writes the memory puts another array here.
    """

    type: TensorType
    storage: np.dtype[Any]
    array: Any


def memory_of(type: TensorType, stored: HostArray) -> Memory:
    """Return memory that holds a copy of a host array."""
    return Memory(type, stored.dtype, to_library(type, stored))


def to_library(type: TensorType, stored: HostArray) -> Any:
    """Return an array of the library; of types that it does not have, low floats and packed ones, the bits."""
    elements = stored if type.dtype.name in DTYPES else stored.view(f"u{stored.itemsize}")
    return xp.asarray(elements, device=HERE, copy=True)


def to_host(memory: Memory) -> HostArray:
    """Return a copy of the content of memory, in storage form."""
    return np.from_dlpack(memory.array.to_device(xp.Device("CPU_DEVICE"))).copy().view(memory.storage)
