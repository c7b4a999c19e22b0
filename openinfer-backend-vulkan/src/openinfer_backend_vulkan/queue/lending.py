"""Arrays of the host in mapped memory of the device, which copies them from where they lie."""

from __future__ import annotations

import weakref
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer_backend_vulkan.queue.commands import MOST_UNFINISHED, Copy

if TYPE_CHECKING:
    import numpy.typing as npt

    from openinfer.ir.types import TensorType
    from openinfer_backend_vulkan.api.device import Device
    from openinfer_backend_vulkan.memory.blocks import Memory, StorageBuffer
    from openinfer_backend_vulkan.queue.commands import CommandQueue

    Array: TypeAlias = npt.NDArray[Any]

MOST_KEPT = MOST_UNFINISHED + 1
"""Buffers of a size that wait for the next array: steps under way may use all others while the host fills one."""


@dataclass(frozen=True, slots=True, eq=False)
class _Lent:
    """A mapped buffer, and the copies from it to other buffers, by the number (`id`) of the target."""

    storage: StorageBuffer
    copies: dict[int, Copy] = field(default_factory=dict[int, "Copy"])


class LentArrays:
    """Arrays that the host fills, each in a mapped buffer of its own.

    A buffer serves another array once nothing refers to the first one, and the device is done with it. Memory of arrays
    that are there when the device is closed is released after them.
    """

    def __init__(self, device: Device, memory: Memory, queue: CommandQueue) -> None:
        self._device, self._memory, self._queue = device, memory, queue
        self._free: dict[int, deque[_Lent]] = {}
        self._given: dict[int, tuple[weakref.ref[Array], _Lent]] = {}

    def lend(self, kind: TensorType) -> Array:
        """Return an array in storage form of a type that is not packed, with undefined elements.

        Raises:
            DeviceError: the device is closed or lost, or has no memory for it.
        """
        self._device.need_open()
        free = self._free.setdefault(kind.nbytes, deque(maxlen=MOST_KEPT))
        lent = self._unused(free) or _Lent(self._memory.mapped(kind.nbytes))
        content = lent.storage.exported()
        self._device.lend(lent.storage.memory, content)
        weakref.finalize(content, free.append, lent).atexit = False
        array = np.frombuffer(content, storage_dtype(kind.dtype), kind.count).reshape(kind.shape)
        number, lendings = id(array), self._given
        lendings[number] = (weakref.ref(array, lambda _: lendings.pop(number, None)), lent)
        return array

    def copied(self, array: Array, target: StorageBuffer) -> Copy | None:
        """Return what copies an array to a buffer; None for arrays that were not lent, and parts of lent ones."""
        lending = self._given.get(id(array))
        if lending is None or lending[0]() is not array or not array.nbytes:
            return None
        lent = lending[1]
        if id(target) not in lent.copies:
            lent.copies[id(target)] = Copy(source=lent.storage, target=target, nbytes=array.nbytes)
        return lent.copies[id(target)]

    def _unused(self, free: deque[_Lent]) -> _Lent | None:
        """Return a buffer that serves no array and no unfinished work; None while there are few."""
        if not free:
            return None
        oldest = free[0].storage
        if self._queue.is_using(oldest):
            if len(free) < MOST_KEPT:
                return None
            self._queue.finish_using(oldest)
        return free.popleft()
