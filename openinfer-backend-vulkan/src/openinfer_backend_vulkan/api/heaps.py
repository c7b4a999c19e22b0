"""The memories of a device: the memory type of each kind of data, and how many bytes a heap has left."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from openinfer.errors import DeviceError
from openinfer_backend_vulkan.api.native import Handle, Structs, foreign, library

if TYPE_CHECKING:
    from openinfer_backend_vulkan.api.physical import PhysicalDevice

BUDGET_EXTENSION = "VK_EXT_memory_budget"
"""With this extension a driver says how many bytes of a heap this process may use."""

STAGING_VARIABLE = "OPENINFER_VULKAN_STAGING"
"""Environment variable: with ``1`` tensors move through the staging ring on devices that need none too, for tests."""


class HasMemory(Protocol):
    """What choosing memory needs of a device."""

    @property
    def handle(self) -> Handle:
        """The device, for the driver."""
        ...

    @property
    def name(self) -> str:
        """The name of the device, for errors."""
        ...


@dataclass(frozen=True, slots=True)
class MemoryType:
    """A memory type by its number, and its heap.

    Attributes:
        is_mapped: whether the host reads and writes it in place.
    """

    number: int
    heap: int
    is_mapped: bool


@dataclass(frozen=True, slots=True)
class MemoryTypes:
    """Where data live: ``tensors`` in the memory nearest to the device, ``host`` in mapped memory of the host.

    On unified and software devices both are the same.
    """

    tensors: MemoryType
    host: MemoryType


@dataclass(frozen=True, slots=True)
class Heap:
    """A heap of ``nbytes`` bytes, of which this process may allocate ``left`` more; None if the driver does not report
    it."""

    nbytes: int
    is_device_local: bool
    left: int | None


def memory_types(physical: HasMemory, allowed: int) -> MemoryTypes:
    """Return the memory types to use, out of those whose bits are set in ``allowed``.

    Raises:
        DeviceError: the host sees no memory of the device.
    """
    lib = library()
    near, cached = lib.VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, lib.VK_MEMORY_PROPERTY_HOST_CACHED_BIT
    coherent = lib.VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | lib.VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
    allowed_types = [(n, t.heapIndex, t.propertyFlags) for n, t in enumerate(_types(physical)) if allowed >> n & 1]

    def first(*, wanted: int, unwanted: int = 0) -> MemoryType | None:
        fitting = (type_ for type_ in allowed_types if type_[2] & wanted == wanted and not type_[2] & unwanted)
        return next((MemoryType(n, heap, is_mapped=bool(wanted & coherent)) for n, heap, _ in fitting), None)

    unified = None if os.environ.get(STAGING_VARIABLE) == "1" else first(wanted=near | coherent | cached)
    if unified is not None:
        return MemoryTypes(tensors=unified, host=unified)
    # Memory of a discrete GPU that the host sees is uncached: it reads it at some megabytes a second.
    host = first(wanted=coherent | cached) or first(wanted=coherent)
    if host is None:
        raise DeviceError(f"{physical.name} has no memory that the host can see")
    tensors = first(wanted=near, unwanted=coherent) or first(wanted=near) or host
    return MemoryTypes(tensors=tensors, host=host)


def is_direct(physical: PhysicalDevice) -> bool:
    """Return whether the host reads and writes tensors of a device in place.

    Raises:
        DeviceError: as for `memory_types`.
    """
    return memory_types(physical, -1).tensors.is_mapped


def heaps(physical: PhysicalDevice) -> list[Heap]:
    """Return the heaps of a device, with what is left of each at this moment."""
    structs = Structs()
    has_budget = BUDGET_EXTENSION in physical.extensions
    budget = structs.new("VkPhysicalDeviceMemoryBudgetPropertiesEXT")
    chain = {"pNext": budget} if has_budget else {}
    properties = structs.new("VkPhysicalDeviceMemoryProperties2", **chain)
    library().vkGetPhysicalDeviceMemoryProperties2(physical.handle, properties)
    memory = properties.memoryProperties
    near = library().VK_MEMORY_HEAP_DEVICE_LOCAL_BIT
    return [
        Heap(
            nbytes=memory.memoryHeaps[n].size,
            is_device_local=bool(memory.memoryHeaps[n].flags & near),
            left=max(0, budget.heapBudget[n] - budget.heapUsage[n]) if has_budget else None,
        )
        for n in range(memory.memoryHeapCount)
    ]


def _types(physical: HasMemory) -> list[Handle]:
    properties = foreign().new("VkPhysicalDeviceMemoryProperties*")
    library().vkGetPhysicalDeviceMemoryProperties(physical.handle, properties)
    # The struct owns its items: they are copied out while it is alive.
    return [foreign().new("VkMemoryType*", properties.memoryTypes[n])[0] for n in range(properties.memoryTypeCount)]
