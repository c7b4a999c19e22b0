"""Commands: what is queued, when it is submitted, and which of it has to wait for which.

Calls queue up until somebody needs their results. A sequence that was submitted before is submitted again as it was
recorded, so a step that repeats is recorded once.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from openinfer_backend_vulkan.native import Handle, Structs, call, check, created, foreign, library

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer_backend_vulkan.device import Device
    from openinfer_backend_vulkan.memory import StorageBuffer
    from openinfer_backend_vulkan.pipelines import DescriptorSet, Pipeline

_QUEUE_LIMIT = 1024
"""Commands that may queue up before they are submitted unasked."""
_RECORDINGS = 64
"""Recorded sequences that are kept."""
_WAIT_NS = 200_000_000
"""Longest single wait; between two of them an interrupt from the keyboard gets through."""

_serials = itertools.count()


def _next_serial() -> int:
    return next(_serials)


class Command(Protocol):
    """Work for the device. ``serial`` is unique and never used again."""

    @property
    def serial(self) -> int: ...
    @property
    def reads(self) -> Sequence[StorageBuffer]: ...
    @property
    def writes(self) -> Sequence[StorageBuffer]: ...
    def record(self, commands: Handle) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dispatch:
    """One run of a shader over ``groups`` workgroups in x, y and z."""

    pipeline: Pipeline
    bound: DescriptorSet
    groups: tuple[int, int, int]
    reads: tuple[StorageBuffer, ...]
    writes: tuple[StorageBuffer, ...]
    serial: int = field(default_factory=_next_serial)

    def record(self, commands: Handle) -> None:
        lib, ffi = library(), foreign()
        point = lib.VK_PIPELINE_BIND_POINT_COMPUTE
        lib.vkCmdBindPipeline(commands, point, self.pipeline.handle)
        sets = ffi.new("VkDescriptorSet[]", [self.bound.handle])
        lib.vkCmdBindDescriptorSets(commands, point, self.pipeline.layout, 0, 1, sets, 0, ffi.NULL)
        lib.vkCmdDispatch(commands, *self.groups)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fill:
    """Fills a buffer with one word of 32 bits."""

    target: StorageBuffer
    word: int
    serial: int = field(default_factory=_next_serial)

    @property
    def reads(self) -> tuple[StorageBuffer, ...]:
        return ()

    @property
    def writes(self) -> tuple[StorageBuffer, ...]:
        return (self.target,)

    def record(self, commands: Handle) -> None:
        library().vkCmdFillBuffer(commands, self.target.handle, 0, self.target.nbytes // 4 * 4, self.word)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Copy:
    """Copies the first ``nbytes`` bytes of a buffer, 1 at least, to another."""

    source: StorageBuffer
    target: StorageBuffer
    nbytes: int
    serial: int = field(default_factory=_next_serial)

    @property
    def reads(self) -> tuple[StorageBuffer, ...]:
        return (self.source,)

    @property
    def writes(self) -> tuple[StorageBuffer, ...]:
        return (self.target,)

    def record(self, commands: Handle) -> None:
        whole = Structs().new("VkBufferCopy", size=self.nbytes)
        library().vkCmdCopyBuffer(commands, self.source.handle, self.target.handle, 1, whole)


class CommandQueue:
    """Collects commands of one device and runs them in order."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._pool = _create_pool(device)
        self._fence = _create_fence(device)
        self._fences = foreign().new("VkFence[]", [self._fence])
        self._waiting: list[Command] = []
        self._running: list[Command] = []
        self._recordings: OrderedDict[tuple[int, ...], Handle] = OrderedDict()

    def enqueue(self, command: Command) -> None:
        """Have a command run after those before it."""
        self._waiting.append(command)
        if len(self._waiting) >= _QUEUE_LIMIT:
            self._submit()

    def synchronize(self) -> None:
        """Run everything to its end.

        Raises:
            DeviceError: the device is closed, or lost.
        """
        self._submit()
        self._wait()

    def forget(self) -> None:
        """Drop what was not submitted and wait for the rest."""
        self._waiting.clear()
        self._wait()

    def is_using(self, buffer: StorageBuffer) -> bool:
        """Return whether unfinished work reads or writes a buffer."""
        unfinished = itertools.chain(self._waiting, self._running)
        return any(buffer in command.reads or buffer in command.writes for command in unfinished)

    def _submit(self) -> None:
        if not self._waiting:
            return
        self._device.need_open()
        self._wait()
        commands, structs = self._recorded(), Structs()
        info = structs.new("VkSubmitInfo", commandBufferCount=1, pCommandBuffers=[commands])
        call("vkResetFences", self._device.handle, 1, self._fences)
        call("vkQueueSubmit", self._device.queue, 1, info, self._fence)
        self._running, self._waiting = self._waiting, []

    def _wait(self) -> None:
        """Wait for what runs. The fence stays as it is, so that whoever is interrupted here can wait again."""
        if not self._running:
            return
        lib = library()
        code = lib.VK_TIMEOUT
        while code == lib.VK_TIMEOUT:
            code = lib.vkWaitForFences(self._device.handle, 1, self._fences, 1, _WAIT_NS)
            check("vkWaitForFences", code)
        self._running = []

    def _recorded(self) -> Handle:
        key = tuple(command.serial for command in self._waiting)
        if key in self._recordings:
            self._recordings.move_to_end(key)
            return self._recordings[key]
        commands = self._buffer_to_record()
        _record(commands, self._waiting)
        self._recordings[key] = commands
        return commands

    def _buffer_to_record(self) -> Handle:
        """Return a new command buffer, or that of the recording least recently used."""
        if len(self._recordings) >= _RECORDINGS:
            return self._recordings.popitem(last=False)[1]
        lib, structs = library(), Structs()
        info = structs.new(
            "VkCommandBufferAllocateInfo",
            commandPool=self._pool,
            level=lib.VK_COMMAND_BUFFER_LEVEL_PRIMARY,
            commandBufferCount=1,
        )
        return created("vkAllocateCommandBuffers", "VkCommandBuffer", self._device.handle, info)


def _record(commands: Handle, sequence: Sequence[Command]) -> None:
    structs = Structs()
    call("vkBeginCommandBuffer", commands, structs.new("VkCommandBufferBeginInfo"))
    conflicts = set(barriers_before(sequence))
    _barrier(commands)
    for number, command in enumerate(sequence):
        if number in conflicts:
            _barrier(commands)
        command.record(commands)
    _barrier(commands, to_host=True)
    call("vkEndCommandBuffer", commands)


def barriers_before(sequence: Sequence[Command]) -> list[int]:
    """Return the positions of commands that touch what one since the last barrier writes, or write what one reads."""
    positions: list[int] = []
    read: set[int] = set()
    written: set[int] = set()
    for number, command in enumerate(sequence):
        reads, writes = {id(b) for b in command.reads}, {id(b) for b in command.writes}
        if reads & written or writes & (read | written):
            positions.append(number)
            read, written = set(), set()
        read |= reads
        written |= writes
    return positions


def _barrier(commands: Handle, *, to_host: bool = False) -> None:
    lib, structs = library(), Structs()
    device_stages = lib.VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | lib.VK_PIPELINE_STAGE_TRANSFER_BIT
    reads = lib.VK_ACCESS_SHADER_READ_BIT | lib.VK_ACCESS_TRANSFER_READ_BIT
    writes = lib.VK_ACCESS_SHADER_WRITE_BIT | lib.VK_ACCESS_TRANSFER_WRITE_BIT
    barrier = structs.new(
        "VkMemoryBarrier",
        srcAccessMask=writes,
        dstAccessMask=lib.VK_ACCESS_HOST_READ_BIT if to_host else reads | writes,
    )
    after = lib.VK_PIPELINE_STAGE_HOST_BIT if to_host else device_stages
    null = foreign().NULL
    lib.vkCmdPipelineBarrier(commands, device_stages, after, 0, 1, barrier, 0, null, 0, null)


def _create_pool(device: Device) -> Handle:
    structs = Structs()
    info = structs.new(
        "VkCommandPoolCreateInfo",
        flags=library().VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
        queueFamilyIndex=device.physical.queue_family,
    )
    pool = created("vkCreateCommandPool", "VkCommandPool", device.handle, info, foreign().NULL)
    device.destroying("vkDestroyCommandPool", pool)
    return pool


def _create_fence(device: Device) -> Handle:
    structs = Structs()
    fence = created("vkCreateFence", "VkFence", device.handle, structs.new("VkFenceCreateInfo"), foreign().NULL)
    device.destroying("vkDestroyFence", fence)
    return fence
