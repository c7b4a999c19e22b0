"""Memory of a device: few large blocks of each memory type, which storage buffers are cut from."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.errors import DeviceError
from openinfer_backend_vulkan.api.heaps import MemoryType, heaps, memory_types
from openinfer_backend_vulkan.api.native import Handle, Structs, VulkanCallError, call, created, foreign, library
from openinfer_backend_vulkan.memory.ranges import FreeRanges

if TYPE_CHECKING:
    import numpy.typing as npt

    from openinfer_backend_vulkan.api.device import Device

BLOCK_BYTES = 16 << 20
"""Size of the first block. Drivers allow about 4,000 allocations, so buffers share them."""
MOST_BLOCK_BYTES = 256 << 20
"""Blocks grow up to this size; a larger buffer has a block of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """An allocation, mapped permanently at ``address`` if the host sees it.

    ``owned`` is the device's number for its release.
    """

    memory: Handle
    address: Handle | None
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
        offset: 0, where the buffer begins.
        is_mapped: whether the host sees it.
        memory: the device's number for the release of the block that it lies in.
    """

    __slots__ = ("__weakref__", "_content", "handle", "memory", "nbytes")

    offset = 0

    def __init__(self, handle: Handle, nbytes: int, content: Any | None, memory: int) -> None:
        self.handle = handle
        self.nbytes = nbytes
        self.memory = memory
        self._content = content

    @property
    def is_mapped(self) -> bool:
        return self._content is not None

    def view(self, dtype: np.dtype[Any], count: int = -1) -> npt.NDArray[Any]:
        """Return the content of a mapped buffer as an array that writes through, valid until the device is closed.

        Raises:
            TypeError: the host does not see this buffer.
        """
        if self._content is None:
            raise TypeError("a buffer in memory that the host does not see has no view")
        return np.frombuffer(self._content, dtype, count)

    def exported(self) -> Any:
        """Return a new object through which others see the content of a mapped buffer, as the buffer protocol has it.

        It can be referred to weakly, and arrays of its content refer to it.

        Raises:
            TypeError: as for `view`.
        """
        if self._content is None:
            raise TypeError("a buffer in memory that the host does not see cannot be exported")
        return foreign().buffer(foreign().from_buffer(self._content), self.nbytes)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Bytes of a storage buffer from ``offset`` on, as shaders are bound to them."""

    storage: StorageBuffer
    offset: int
    nbytes: int

    @property
    def handle(self) -> Handle:
        return self.storage.handle


class Memory:
    """Gives out storage buffers of one device.

    Attributes:
        is_direct: whether the host sees tensors.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        types = memory_types(device.physical, _allowed_types(device))
        self._host = _Pool(device, types.host)
        self._tensors = self._host if types.tensors == types.host else _Pool(device, types.tensors)
        self.is_direct = types.tensors.is_mapped
        self._most = device.physical.max_storage_bytes

    def tensor(self, nbytes: int) -> StorageBuffer:
        """Return a new buffer near the device, with undefined content.

        Its size is rounded up to whole words, one at least.

        Raises:
            DeviceError: ``too-large``, it is larger than shaders can address, or memory is used up.
        """
        return self._tensors.buffer(nbytes, self._most)

    def mapped(self, nbytes: int) -> StorageBuffer:
        """Return a new buffer that the host sees, as `tensor` does."""
        return self._host.buffer(nbytes, self._most)

    def arena(self, nbytes: int) -> StorageBuffer:
        """Return a new buffer near the device that shaders are bound to parts of, and that may be larger than those.

        Raises:
            DeviceError: ``too-large``, memory is used up.
        """
        return self._tensors.buffer(nbytes, None)


class _Pool:
    """The blocks of one memory type."""

    def __init__(self, device: Device, kind: MemoryType) -> None:
        self._device = device
        self._kind = kind
        self._blocks: list[_Block] = []
        self._dropped: list[_Place] = []

    def buffer(self, nbytes: int, most: int | None) -> StorageBuffer:
        """Return a new buffer, which has at most so many bytes; None: any number."""
        self._collect()
        if most is not None and nbytes > most:
            message = f"{nbytes:,} bytes are more than a storage buffer may have here ({most:,} bytes)"
            raise DeviceError(message, code="too-large")
        size = max(4, -(-nbytes // 4) * 4)
        handle = _create_buffer(self._device, size)
        owned = self._device.destroying("vkDestroyBuffer", handle)
        try:
            place = self._place(handle, owned)
        except DeviceError:
            self._device.release(owned)
            raise
        address = place.block.address
        content = None if address is None else foreign().buffer(address + place.offset, size)
        made = StorageBuffer(handle, size, content, place.block.owned)
        # A finalizer may run at any point of this class, so it only takes a note.
        weakref.finalize(made, self._dropped.append, place).atexit = False
        return made

    def _place(self, handle: Handle, owned: int) -> _Place:
        """Bind memory to a Vulkan buffer."""
        needs = _needs(self._device, handle)
        block, offset = self._taken(needs.size, needs.alignment)
        call("vkBindBufferMemory", self._device.handle, handle, block.memory, offset)
        return _Place(block, offset, needs.size, owned)

    def _taken(self, size: int, alignment: int) -> tuple[_Block, int]:
        for block in self._blocks:
            offset = block.free.take(size, alignment)
            if offset is not None:
                return block, offset
        block = self._new_block(size)
        self._blocks.append(block)
        block.free.take(size, 1)
        return block, 0

    def _new_block(self, size: int) -> _Block:
        """Return a block as large as those before together, or of ``size`` bytes where no more are left.

        Raises:
            DeviceError: ``too-large``, the heap has not even those.
        """
        held = sum(block.free.size for block in self._blocks)
        usual = max(size, BLOCK_BYTES, min(held, MOST_BLOCK_BYTES))
        for wanted in dict.fromkeys((usual, size)):
            left = heaps(self._device.physical)[self._kind.heap].left
            if left is not None and wanted > left:
                continue
            try:
                return self._allocated(wanted)
            except VulkanCallError as error:
                if error.code != "too-large":
                    raise
        raise DeviceError(self._used_up(size), code="too-large")

    def _used_up(self, size: int) -> str:
        heap = heaps(self._device.physical)[self._kind.heap]
        held = sum(block.free.size for block in self._blocks)
        left = f"{heap.nbytes - held:,} at most" if heap.left is None else f"{heap.left:,}"
        name = self._device.physical.name
        return f"{size:,} bytes are needed, and {left} of the {heap.nbytes:,} bytes of {name} are left"

    def _allocated(self, size: int) -> _Block:
        device, structs = self._device, Structs()
        info = structs.new("VkMemoryAllocateInfo", allocationSize=size, memoryTypeIndex=self._kind.number)
        memory = created("vkAllocateMemory", "VkDeviceMemory", device.handle, info, foreign().NULL)
        owned = device.destroying("vkFreeMemory", memory)
        if not self._kind.is_mapped:
            return _Block(memory, None, owned, FreeRanges(size))
        slot = foreign().new("void**")
        try:
            call("vkMapMemory", device.handle, memory, 0, size, 0, slot)
        except DeviceError:
            device.release(owned)
            raise
        return _Block(memory, foreign().cast("char*", slot[0]), owned, FreeRanges(size))

    def _collect(self) -> None:
        """Take back what dropped buffers had, and release blocks that are unused, but for the smallest."""
        while self._dropped:
            place = self._dropped.pop()
            self._device.release(place.owned)
            place.block.free.give_back(place.offset, place.size)
        unused = [block for block in self._blocks if block.free.is_unused]
        spare = min(unused, key=lambda block: block.free.size, default=None)
        for block in unused:
            if block is not spare or block.free.size > BLOCK_BYTES:
                self._blocks.remove(block)
                self._device.release(block.owned)


def _allowed_types(device: Device) -> int:
    """Return the memory types of storage buffers, as bits."""
    handle = _create_buffer(device, 4)
    try:
        return _needs(device, handle).memoryTypeBits
    finally:
        library().vkDestroyBuffer(device.handle, handle, foreign().NULL)


def _needs(device: Device, handle: Handle) -> Handle:
    needs = foreign().new("VkMemoryRequirements*")
    library().vkGetBufferMemoryRequirements(device.handle, handle, needs)
    return needs


def _create_buffer(device: Device, size: int) -> Handle:
    lib, structs = library(), Structs()
    transfers = lib.VK_BUFFER_USAGE_TRANSFER_SRC_BIT | lib.VK_BUFFER_USAGE_TRANSFER_DST_BIT
    info = structs.new(
        "VkBufferCreateInfo",
        size=size,
        usage=lib.VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | lib.VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT | transfers,
        sharingMode=lib.VK_SHARING_MODE_EXCLUSIVE,
    )
    return created("vkCreateBuffer", "VkBuffer", device.handle, info, foreign().NULL)
