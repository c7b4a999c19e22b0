"""Arrays on their way between host memory and tensors that the host does not see.

They pass through a ring of mapped slots, from which the device copies in the order of its queue: while it moves one
slot, the host fills or empties the next.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from openinfer_backend_vulkan.api.fences import CommandPool, Fence, barrier
from openinfer_backend_vulkan.api.native import Handle, Structs, call, library

if TYPE_CHECKING:
    import numpy.typing as npt

    from openinfer_backend_vulkan.api.device import Device
    from openinfer_backend_vulkan.memory.blocks import Memory, StorageBuffer

    Bytes: TypeAlias = npt.NDArray[np.uint8]

SLOT_BYTES = 8 << 20
SLOTS = 4
_ALIGNMENT = 64
"""Copies begin at multiples of it in a slot, a cache line of the host."""


@dataclass(slots=True, eq=False)
class _Slot:
    """Mapped memory with a command buffer that copies from it or to it.

    Attributes:
        kept: tensors that its copies use until they are done.
        used: how much of it holds bytes for uploads that were not submitted.
    """

    storage: StorageBuffer
    bytes: Bytes
    commands: Handle
    fence: Fence
    kept: list[StorageBuffer] = field(default_factory=list["StorageBuffer"])
    copies: list[tuple[StorageBuffer, Handle]] = field(default_factory=list[tuple["StorageBuffer", "Handle"]])
    used: int = 0


class Staging:
    """Moves arrays to and from tensors of one device. Slots are made when they are first used."""

    def __init__(self, device: Device, memory: Memory) -> None:
        self._device = device
        self._memory = memory
        self._pool: CommandPool | None = None
        self._slots: deque[_Slot] = deque()
        self._filling: _Slot | None = None

    def upload(self, target: StorageBuffer, content: Bytes) -> None:
        """Have a tensor hold these bytes, before work that is submitted from here on.

        The array is free again when this returns; its bytes are submitted at `flush`.

        Raises:
            DeviceError: the device is closed or lost, or the host has no memory for a slot.
        """
        self._device.need_open()
        at = 0
        while at < content.size:
            slot = self._filling = self._filling or self._next()
            size = min(content.size - at, SLOT_BYTES - slot.used)
            slot.bytes[slot.used : slot.used + size] = content[at : at + size]
            region = Structs().new("VkBufferCopy", srcOffset=slot.used, dstOffset=at, size=size)
            slot.copies.append((target, region))
            slot.used += -(-size // _ALIGNMENT) * _ALIGNMENT
            at += size
            if slot.used >= SLOT_BYTES:
                self.flush()

    def flush(self) -> None:
        """Submit uploads that were not submitted yet.

        Raises:
            DeviceError: the device is closed, or lost.
        """
        slot = self._filling
        if slot is None:
            return
        self._device.need_open()
        _begin(slot.commands)
        copy = library().vkCmdCopyBuffer
        for target, region in slot.copies:
            copy(slot.commands, slot.storage.handle, target.handle, 1, region)
        barrier(slot.commands)
        slot.kept = [target for target, _ in slot.copies]
        self._submit(slot)

    def settle(self) -> None:
        """Wait until everything is moved that was submitted, and let go of the tensors.

        Raises:
            DeviceError: the device is lost.
        """
        for slot in self._slots:
            if slot.kept:
                slot.fence.wait()
                slot.kept = []

    def download(self, source: StorageBuffer, nbytes: int) -> Bytes:
        """Return the first bytes of a tensor, after all work that was submitted.

        Raises:
            DeviceError: as for `upload`.
        """
        self.flush()
        content = np.empty(nbytes, np.uint8)
        moving: deque[tuple[_Slot, int]] = deque()
        for at in range(0, nbytes, SLOT_BYTES):
            if len(moving) == SLOTS:
                _take(*moving.popleft(), content)
            slot = self._next()
            self._fetch(slot, source, at, min(SLOT_BYTES, nbytes - at))
            moving.append((slot, at))
        while moving:
            _take(*moving.popleft(), content)
        return content

    def _fetch(self, slot: _Slot, source: StorageBuffer, at: int, size: int) -> None:
        _begin(slot.commands)
        region = Structs().new("VkBufferCopy", srcOffset=at, dstOffset=0, size=size)
        library().vkCmdCopyBuffer(slot.commands, source.handle, slot.storage.handle, 1, region)
        barrier(slot.commands, to_host=True)
        slot.kept = [source]
        self._submit(slot)

    def _submit(self, slot: _Slot) -> None:
        call("vkEndCommandBuffer", slot.commands)
        slot.fence.submit([slot.commands])
        slot.copies, slot.used, self._filling = [], 0, None

    def _next(self) -> _Slot:
        """Return the slot that was used least recently, when the device is done with it."""
        slot = self._made() if len(self._slots) < SLOTS else self._slots.popleft()
        self._slots.append(slot)
        slot.fence.wait()
        slot.kept = []
        return slot

    def _made(self) -> _Slot:
        self._pool = self._pool or CommandPool(self._device)
        storage = self._memory.mapped(SLOT_BYTES)
        return _Slot(storage, storage.view(np.dtype(np.uint8)), self._pool.buffer(), Fence(self._device))


def _begin(commands: Handle) -> None:
    call("vkBeginCommandBuffer", commands, Structs().new("VkCommandBufferBeginInfo"))
    barrier(commands)


def _take(slot: _Slot, at: int, content: Bytes) -> None:
    slot.fence.wait()
    size = min(SLOT_BYTES, content.size - at)
    content[at : at + size] = slot.bytes[:size]
