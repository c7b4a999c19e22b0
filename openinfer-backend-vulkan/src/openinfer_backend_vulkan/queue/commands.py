"""Commands: what is queued, and when it is submitted.

Calls queue up until somebody needs their results. A sequence that was submitted before is submitted again as it was
recorded, so a step that repeats is recorded once.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from openinfer_backend_vulkan.api.fences import CommandPool, Fence, barrier
from openinfer_backend_vulkan.api.native import Handle, Structs, call, foreign, library
from openinfer_backend_vulkan.memory.blocks import Part
from openinfer_backend_vulkan.queue.clock import Clock
from openinfer_backend_vulkan.queue.hazards import barriers_before, span, touched

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer_backend_vulkan.api.device import Device
    from openinfer_backend_vulkan.memory.blocks import StorageBuffer
    from openinfer_backend_vulkan.memory.staging import Staging
    from openinfer_backend_vulkan.queue.hazards import Command, Place
    from openinfer_backend_vulkan.queue.pipelines import DescriptorSet, Pipeline

_QUEUE_LIMIT = 1024
"""Number of queued commands at which they are submitted without a request."""
_RECORDINGS = 64
"""Recorded sequences that are kept."""

MOST_UNFINISHED = 2
"""Submissions that may be unfinished: the host prepares one while the device works on another."""

_serials = itertools.count()


def _next_serial() -> int:
    return next(_serials)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dispatch:
    """One run of a shader over ``groups`` workgroups in x, y and z, with words of push constants.

    Groups in memory are three words there, at the begin of a `Part`.
    """

    pipeline: Pipeline
    bound: DescriptorSet
    groups: tuple[int, int, int] | Part
    pushed: tuple[int, ...]
    reads: tuple[Place, ...]
    writes: tuple[Place, ...]
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
        if isinstance(self.groups, tuple):
            lib.vkCmdDispatch(commands, *self.groups)
        else:
            lib.vkCmdDispatchIndirect(commands, self.groups.handle, self.groups.offset)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fill:
    """Fills a buffer with one word of 32 bits."""

    target: Place
    word: int
    serial: int = field(default_factory=_next_serial)

    @property
    def reads(self) -> tuple[Place, ...]:
        return ()

    @property
    def writes(self) -> tuple[Place, ...]:
        return (self.target,)

    def record(self, commands: Handle) -> None:
        library().vkCmdFillBuffer(
            commands, self.target.handle, self.target.offset, self.target.nbytes // 4 * 4, self.word
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Copy:
    """Copies the first ``nbytes`` bytes of a buffer, 1 at least, to another."""

    source: Place
    target: Place
    nbytes: int
    serial: int = field(default_factory=_next_serial)

    @property
    def reads(self) -> tuple[Place, ...]:
        return (self.source,)

    @property
    def writes(self) -> tuple[Place, ...]:
        return (self.target,)

    def record(self, commands: Handle) -> None:
        offsets = {"srcOffset": self.source.offset, "dstOffset": self.target.offset}
        whole = Structs().new("VkBufferCopy", size=self.nbytes, **offsets)
        library().vkCmdCopyBuffer(commands, self.source.handle, self.target.handle, 1, whole)


@dataclass(frozen=True, slots=True, eq=False)
class _Recording:
    """A recorded sequence, and the numbers (`id`) of the buffers that it touches, and of those that it writes."""

    commands: Handle
    touched: frozenset[int]
    written: frozenset[int]


@dataclass(frozen=True, slots=True, eq=False)
class _Submission:
    """Work that is not known to be done; ``number`` counts submissions, ``kept`` is what it uses."""

    number: int
    kept: tuple[Command, ...]
    recordings: tuple[_Recording, ...]
    fence: Fence
    clock: Clock | None

    def touches(self, buffer: int) -> bool:
        return any(buffer in recording.touched for recording in self.recordings)

    def writes(self, buffer: int) -> bool:
        return any(buffer in recording.written for recording in self.recordings)


class CommandQueue:
    """Collects commands of one device and runs them in order.

    Attributes:
        submissions: how many there were.
    """

    def __init__(self, device: Device, staging: Staging) -> None:
        self._device = device
        self._staging = staging
        self._pool = CommandPool(device)
        self._fences = [Fence(device) for _ in range(MOST_UNFINISHED)]
        self._waiting: list[Command] = []
        self._unfinished: deque[_Submission] = deque()
        self._recordings: OrderedDict[tuple[Clock | None, tuple[int, ...]], _Recording] = OrderedDict()
        self._clock: Clock | None = None
        self._worked_ns: int | None = None
        self._shared: dict[int, StorageBuffer] = {}
        self.submissions = 0

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
        return id(buffer) in touched(self._waiting)

    def is_using(self, buffer: StorageBuffer) -> bool:
        """Return whether unfinished work reads or writes a buffer."""
        number = id(buffer)
        is_touched = any(submission.touches(number) for submission in self._unfinished)
        return is_touched or number in self._shared or self.is_waiting(buffer)

    def is_writing(self, buffer: StorageBuffer) -> bool:
        """Return whether unfinished work writes a buffer."""
        number = id(buffer)
        is_written = any(submission.writes(number) for submission in self._unfinished) or number in self._shared
        return is_written or any(span(place)[0] == number for command in self._waiting for place in command.writes)

    def submit(self) -> None:
        """Have everything run that waits, uploads first, without waiting for it.

        Raises:
            DeviceError: the device is closed, or lost.
        """
        self._device.need_open()
        self._staging.flush()
        if self._waiting:
            self._launch(self._waiting)
            self._waiting = []

    def run(self, sequence: Sequence[Command]) -> int:
        """Submit the queued commands and then these at once; return the number to pass to `finish`.

        Raises:
            DeviceError: the device is closed, or lost.
        """
        self._device.need_open()
        self._staging.flush()
        before = self.submissions
        try:
            return self._launch(*([self._waiting] if self._waiting else ()), sequence)
        finally:
            if self.submissions > before:
                self._waiting = []

    def finish(self, number: int) -> None:
        """Wait for a submission, and those before it.

        Raises:
            DeviceError: the device is closed, or lost.
        """
        self._device.need_open()
        while self._unfinished and self._unfinished[0].number <= number:
            self._finish_first()

    def finish_using(self, buffer: StorageBuffer) -> None:
        """Wait for the work that reads or writes a buffer.

        Raises:
            DeviceError: the device is closed, or lost.
        """
        if self.is_waiting(buffer):
            self.submit()
        number = id(buffer)
        self.finish(
            max((submission.number for submission in self._unfinished if submission.touches(number)), default=0)
        )

    def share(self, buffer: StorageBuffer) -> None:
        """Submit everything, and treat a buffer as read and written by other users of the queue until `synchronize`.

        Raises:
            DeviceError: the device is closed, or lost.
        """
        self.submit()
        self._shared[id(buffer)] = buffer

    def is_finished(self, number: int) -> bool:
        """Return whether a submission is known or found to be done, without waiting.

        Raises:
            DeviceError: the device is lost.
        """
        unfinished = [submission for submission in self._unfinished if submission.number <= number]
        return all(submission.fence.is_done() for submission in unfinished)

    def _launch(self, *sequences: Sequence[Command]) -> int:
        self._device.need_open()
        # A clock keeps the times of one submission.
        while len(self._unfinished) >= (MOST_UNFINISHED if self._clock is None else 1):
            self._finish_first()
        # The clock takes the time of one recording.
        unclocked = [self._recorded(sequence, None) for sequence in sequences[:-1]]
        recordings, fence = (*unclocked, self._recorded(sequences[-1], self._clock)), self._fences[-1]
        kept = tuple(itertools.chain.from_iterable(sequences))
        submission = _Submission(self.submissions + 1, kept, recordings, fence, self._clock)
        try:
            fence.submit([recording.commands for recording in recordings])
        finally:
            if fence.is_pending:
                self._fences.pop()
                self._unfinished.append(submission)
                self.submissions = submission.number
        return submission.number

    def _wait(self) -> None:
        """Wait for what runs, that of others too where buffers are shared."""
        while self._unfinished:
            self._finish_first()
        if self._shared:
            with self._device.lock:
                call("vkQueueWaitIdle", self._device.queue)
            self._shared.clear()

    def _finish_first(self) -> None:
        first = self._unfinished[0]
        first.fence.wait()
        if first.clock is not None:
            self._worked_ns = (self._worked_ns or 0) + first.clock.worked_ns()
        self._fences.append(first.fence)
        self._unfinished.popleft()

    def _recorded(self, sequence: Sequence[Command], clock: Clock | None) -> _Recording:
        key = (clock, tuple([command.serial for command in sequence]))
        recording = self._recordings.get(key)
        if recording is not None:
            self._recordings.move_to_end(key)
            return recording
        commands = self._buffer_to_record()
        _record(commands, sequence, clock)
        written = frozenset(span(place)[0] for command in sequence for place in command.writes)
        recording = self._recordings[key] = _Recording(commands, frozenset(touched(sequence)), written)
        return recording

    def _buffer_to_record(self) -> Handle:
        """Return a new command buffer, or that of the recording least recently used, which is done."""
        if len(self._recordings) >= _RECORDINGS:
            return self._recordings.popitem(last=False)[1].commands
        return self._pool.buffer()


def _record(commands: Handle, sequence: Sequence[Command], clock: Clock | None) -> None:
    structs, flags = Structs(), library().VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT
    call("vkBeginCommandBuffer", commands, structs.new("VkCommandBufferBeginInfo", flags=flags))
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
