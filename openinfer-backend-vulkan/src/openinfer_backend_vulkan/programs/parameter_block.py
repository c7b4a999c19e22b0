"""Numbers that differ from step to step: lengths, places, counts of workgroups, in one block that each step copies.

The host fills a slot of a ring while the device still reads the block of the step before. The first command of a
submission copies the slot into the block, so that recorded commands stay as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from openinfer_backend_vulkan.memory.blocks import Part
from openinfer_backend_vulkan.queue.commands import MOST_UNFINISHED, Copy

if TYPE_CHECKING:
    from openinfer_backend_vulkan.queue.engine import Engine

BLOCK_BYTES = 1 << 16
_SMALLEST_COPY = 1024


class ParameterBlock:
    """A block in device memory and the ring that fills it.

    Attributes:
        words: the words of the slot that is being filled, by their number, as signed integers.
        bits: the same words as unsigned ones.
    """

    def __init__(self, engine: Engine) -> None:
        self._queue = engine.queue
        self._alignment = max(engine.device.physical.offset_alignment, 4)
        self._block = engine.memory.tensor(BLOCK_BYTES)
        self._slots = [engine.memory.mapped(BLOCK_BYTES) for _ in range(MOST_UNFINISHED)]
        self._words = [slot.view(np.dtype(np.int32)).data for slot in self._slots]
        self._bits = [slot.view(np.dtype(np.uint32)).data for slot in self._slots]
        self._used_by = [0] * len(self._slots)
        self._parts: dict[tuple[int, int], Part] = {}
        self._copies: dict[tuple[int, int], Copy] = {}
        self._current, self._used = 0, 0
        self.words, self.bits = self._words[0], self._bits[0]

    def room_for(self, count: int) -> int:
        """Return the bytes that so many words take at most, with those in front of them that are left out."""
        return 4 * count + self._alignment - 4

    def has_room(self, nbytes: int) -> bool:
        """Return whether so many bytes are free."""
        return self._used + nbytes <= BLOCK_BYTES

    def take(self, count: int) -> int:
        """Return the number of the first of so many free words, where a buffer of a shader may begin.

        The first one of a submission waits until the device has copied what its slot had before.

        Raises:
            DeviceError: the device is lost.
            ValueError: there is no room for them, see `has_room`.
        """
        if not self._used:
            self._current = (self._current + 1) % len(self._slots)
            self._queue.finish(self._used_by[self._current])
            self.words, self.bits = self._words[self._current], self._bits[self._current]
        begin = -(-self._used // self._alignment) * self._alignment
        if begin + 4 * count > BLOCK_BYTES:
            raise ValueError(f"{count} numbers of a kernel are more than the parameter block has room for")
        self._used = begin + 4 * count
        return begin // 4

    def part(self, first: int, count: int) -> Part:
        """Return words of the block, in device memory."""
        key = (first, count)
        if key not in self._parts:
            self._parts[key] = Part(self._block, 4 * first, 4 * count)
        return self._parts[key]

    def copies(self) -> list[Copy]:
        """Return the commands that come before those that use the block."""
        if not self._used:
            return []
        nbytes = max(_SMALLEST_COPY, 1 << (self._used - 1).bit_length())
        key = (self._current, nbytes)
        if key not in self._copies:
            self._copies[key] = Copy(source=self._slots[self._current], target=self._block, nbytes=nbytes)
        return [self._copies[key]]

    def submitted(self, number: int) -> None:
        """Note which submission copies the slot; the next one fills another."""
        if self._used:
            self._used_by[self._current] = number
        self._used = 0
