"""Commands: what is queued, when it is submitted, and which of it has to wait for which.

Calls queue up until somebody needs their results. A sequence that was submitted before is submitted again as it was
recorded, so a step that repeats is recorded once.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from openinfer_backend_vulkan.clock import Clock
from openinfer_backend_vulkan.fences import CommandPool, Fence, barrier
from openinfer_backend_vulkan.native import Handle, Structs, call, foreign, library

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer_backend_vulkan.device import Device
    from openinfer_backend_vulkan.memory import StorageBuffer
    from openinfer_backend_vulkan.pipelines import DescriptorSet, Pipeline
    from openinfer_backend_vulkan.staging import Staging

_QUEUE_LIMIT = 1024
"""Commands that may queue up before they are submitted unasked."""
_RECORDINGS = 64
"""Recorded sequences that are kept."""

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
    """One run of a shader over ``groups`` workgroups in x, y and z, with words of push constants."""

    pipeline: Pipeline
    bound: DescriptorSet
    groups: tuple[int, int, int]
    pushed: tuple[int, ...]
    reads: tuple[StorageBuffer, ...]
    writes: tuple[StorageBuffer, ...]
    serial: int = field(default_factory=_next_serial)

    def record(self, commands: Handle) -> None:
        lib, ffi = library(), foreign()
        point = lib.VK_PIPELINE_BIND_POINT_COMPUTE
        lib.vkCmdBindPipeline(commands, point, self.pipeline.handle)
        sets = ffi.new("VkDescriptorSet[]", [self.bound.handle])
        lib.vkCmdBindDescriptorSets(commands, point, self.pipeline.layout, 0, 1, sets, 0, ffi.NULL)
        if self.pushed:
            words = ffi.new("uint32_t[]", [word & 0xFFFFFFFF for word in self.pushed])
            stage = lib.VK_SHADER_STAGE_COMPUTE_BIT
            lib.vkCmdPushConstants(commands, self.pipeline.layout, stage, 0, 4 * len(self.pushed), words)
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

    def __init__(self, device: Device, staging: Staging) -> None:
        self._device = device
        self._staging = staging
        self._pool = CommandPool(device)
        self._fence = Fence(device)
        self._waiting: list[Command] = []
        self._running: list[Command] = []
        self._recordings: OrderedDict[tuple[Clock | None, tuple[int, ...]], Handle] = OrderedDict()
        self._clock: Clock | None = None
        self._running_clock: Clock | None = None
        self._worked_ns: int | None = None

    def enqueue(self, command: Command) -> None:
        """Have a command run after those before it."""
        self._waiting.append(command)
        if len(self._waiting) >= _QUEUE_LIMIT:
            self.submit()

    def synchronize(self) -> None:
        """Run everything to its end.

        Raises:
            DeviceError: the device is closed, or lost.
        """
        self.submit()
        self._wait()
        self._staging.settle()

    def timed_synchronize(self) -> int | None:
        """Run everything to its end; return nanoseconds that commands took on the device since the last time.

        None: there were none, or the device has no clock.

        Raises:
            DeviceError: as for `synchronize`.
        """
        physical = self._device.physical
        if self._clock is None and physical.clock_bits:
            self._clock = Clock(self._device, physical.tick_ns)
        self.synchronize()
        worked, self._worked_ns = self._worked_ns, None
        return worked

    def forget(self) -> None:
        """Drop what was not submitted and wait for the rest."""
        self._waiting.clear()
        self._wait()

    def is_waiting(self, buffer: StorageBuffer) -> bool:
        """Return whether work that was not submitted reads or writes a buffer."""
        return any(buffer in command.reads or buffer in command.writes for command in self._waiting)

    def is_using(self, buffer: StorageBuffer) -> bool:
        """Return whether unfinished work reads or writes a buffer."""
        unfinished = itertools.chain(self._waiting, self._running)
        return any(buffer in command.reads or buffer in command.writes for command in unfinished)

    def submit(self) -> None:
        """Have everything run that waits, uploads first, without waiting for it.

        Raises:
            DeviceError: the device is closed, or lost.
        """
        self._staging.flush()
        if not self._waiting:
            return
        self._device.need_open()
        self._wait()
        self._fence.submit(self._recorded())
        self._running, self._waiting, self._running_clock = self._waiting, [], self._clock

    def _wait(self) -> None:
        """Wait for what runs."""
        self._fence.wait()
        if self._running and self._running_clock is not None:
            self._worked_ns = (self._worked_ns or 0) + self._running_clock.worked_ns()
        self._running = []

    def _recorded(self) -> Handle:
        key = (self._clock, tuple(command.serial for command in self._waiting))
        if key in self._recordings:
            self._recordings.move_to_end(key)
            return self._recordings[key]
        commands = self._buffer_to_record()
        _record(commands, self._waiting, self._clock)
        self._recordings[key] = commands
        return commands

    def _buffer_to_record(self) -> Handle:
        """Return a new command buffer, or that of the recording least recently used."""
        if len(self._recordings) >= _RECORDINGS:
            return self._recordings.popitem(last=False)[1]
        return self._pool.buffer()


def _record(commands: Handle, sequence: Sequence[Command], clock: Clock | None) -> None:
    structs = Structs()
    call("vkBeginCommandBuffer", commands, structs.new("VkCommandBufferBeginInfo"))
    conflicts = set(barriers_before(sequence))
    barrier(commands)
    if clock is not None:
        clock.record_begin(commands)
    for number, command in enumerate(sequence):
        if number in conflicts:
            barrier(commands)
        command.record(commands)
    barrier(commands, to_host=True)
    if clock is not None:
        clock.record_end(commands)
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
