"""Memory of a device that the host sees too: blocks that storage buffers are cut from."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from openinfer.errors import DeviceError
from openinfer_backend_vulkan.native import Handle, Structs, call, created, foreign, library
from openinfer_backend_vulkan.ranges import FreeRanges

if TYPE_CHECKING:
    from openinfer_backend_vulkan.device import Device

BLOCK_BYTES = 16 << 20
"""Size of a block; a larger buffer has one of its own. Drivers allow about 4,000 allocations, so buffers share them."""


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """An allocation, mapped for good at ``address``; ``owned`` is the device's number for its release."""

    memory: Handle
    address: Handle
    owned: int
    free: FreeRanges


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """Part of a block, bound to a Vulkan buffer that the device owns under a number."""

    block: _Block
    offset: int
    size: int
    owned: int


class StorageBuffer:
    """A buffer in a block, released when nothing refers to it any more.

    Attributes:
        handle: the Vulkan buffer.
        nbytes: size.
        bytes: its content, as a writable buffer object; valid until the device is closed.
    """

    __slots__ = ("__weakref__", "bytes", "handle", "nbytes")

    def __init__(self, handle: Handle, nbytes: int, content: Any) -> None:
        self.handle = handle
        self.nbytes = nbytes
        self.bytes = content


class Memory:
    """Gives out storage buffers of one device."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._blocks: list[_Block] = []
        self._dropped: list[_Place] = []

    def buffer(self, nbytes: int) -> StorageBuffer:
        """Return a new buffer with undefined content; its size is rounded up to whole words, one at least.

        Raises:
            DeviceError: it is larger than shaders can address, or memory is used up.
        """
        self._collect()
        limit = self._device.physical.max_storage_bytes
        if nbytes > limit:
            message = f"a tensor of {nbytes} bytes is larger than a storage buffer may be here ({limit} bytes)"
            raise DeviceError(message, code="too-large")
        size = max(4, -(-nbytes // 4) * 4)
        handle = _create_buffer(self._device, size)
        owned = self._device.destroying("vkDestroyBuffer", handle)
        try:
            place = self._place(handle, owned)
        except DeviceError:
            self._device.release(owned)
            raise
        made = StorageBuffer(handle, size, foreign().buffer(place.block.address + place.offset, size))
        # A finalizer may run at any point of this class, so it only takes a note.
        weakref.finalize(made, self._dropped.append, place).atexit = False
        return made

    def _place(self, handle: Handle, owned: int) -> _Place:
        """Bind memory to a Vulkan buffer."""
        needs = foreign().new("VkMemoryRequirements*")
        library().vkGetBufferMemoryRequirements(self._device.handle, handle, needs)
        block, offset = self._taken(needs.size, needs.alignment, needs.memoryTypeBits)
        call("vkBindBufferMemory", self._device.handle, handle, block.memory, offset)
        return _Place(block, offset, needs.size, owned)

    def _taken(self, size: int, alignment: int, types: int) -> tuple[_Block, int]:
        for block in self._blocks:
            offset = block.free.take(size, alignment)
            if offset is not None:
                return block, offset
        block = self._new_block(max(size, BLOCK_BYTES), types)
        self._blocks.append(block)
        block.free.take(size, 1)
        return block, 0

    def _new_block(self, size: int, types: int) -> _Block:
        device, structs = self._device, Structs()
        info = structs.new(
            "VkMemoryAllocateInfo", allocationSize=size, memoryTypeIndex=_host_memory_type(device, types)
        )
        memory = created("vkAllocateMemory", "VkDeviceMemory", device.handle, info, foreign().NULL)
        owned = device.destroying("vkFreeMemory", memory)
        slot = foreign().new("void**")
        try:
            call("vkMapMemory", device.handle, memory, 0, size, 0, slot)
        except DeviceError:
            device.release(owned)
            raise
        return _Block(memory, foreign().cast("char*", slot[0]), owned, FreeRanges(size))

    def _collect(self) -> None:
        """Take back what dropped buffers had, and release blocks that are unused, but for one of the usual size."""
        while self._dropped:
            place = self._dropped.pop()
            self._device.release(place.owned)
            place.block.free.give_back(place.offset, place.size)
        unused = [block for block in self._blocks if block.free.is_unused]
        spare = next((block for block in unused if block.free.size == BLOCK_BYTES), None)
        for block in unused:
            if block is not spare:
                self._blocks.remove(block)
                self._device.release(block.owned)


def _create_buffer(device: Device, size: int) -> Handle:
    lib, structs = library(), Structs()
    transfers = lib.VK_BUFFER_USAGE_TRANSFER_SRC_BIT | lib.VK_BUFFER_USAGE_TRANSFER_DST_BIT
    info = structs.new(
        "VkBufferCreateInfo",
        size=size,
        usage=lib.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | transfers,
        sharingMode=lib.VK_SHARING_MODE_EXCLUSIVE,
    )
    return created("vkCreateBuffer", "VkBuffer", device.handle, info, foreign().NULL)


def _host_memory_type(device: Device, types: int) -> int:
    """Return the memory type to use: host-visible and coherent, which always exists, and cached where possible."""
    lib = library()
    properties = foreign().new("VkPhysicalDeviceMemoryProperties*")
    lib.vkGetPhysicalDeviceMemoryProperties(device.physical.handle, properties)
    coherent = lib.VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | lib.VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
    for wanted in (coherent | lib.VK_MEMORY_PROPERTY_HOST_CACHED_BIT, coherent):
        for number in range(properties.memoryTypeCount):
            if types >> number & 1 and properties.memoryTypes[number].propertyFlags & wanted == wanted:
                return number
    raise DeviceError(f"{device.physical.name} has no memory that the host can see")
