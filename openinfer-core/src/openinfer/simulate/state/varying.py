"""Variables to which ``cache.read`` may give another shape while a step runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.ir.types import TensorType
from openinfer.simulate.devices.backend import HostBackend

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.simulate.devices.backend import Buffer, DeviceBackend

MOST_BUFFERS = 8
"""Most private buffers that a variable keeps, one for each shape that it took, where they cannot share memory."""


@dataclass(slots=True, eq=False)
class _Room:
    """Memory that holds values of several shapes, one at a time; ``latest`` is the one that was requested last."""

    whole: Buffer
    latest: Buffer | None = None


class Varying:
    """A variable whose buffer changes.

    It may show memory of a cache without a copy; the cache lets it go before that memory changes.

    Attributes:
        declared: the buffer of the declared shape.
        current: the buffer that holds the value.
    """

    def __init__(self, declared: Buffer, backend: DeviceBackend) -> None:
        self.declared = declared
        self.current = declared
        self._backend = backend
        # Asked once: checking a protocol takes longer than much of what is done with it.
        self._host = backend if isinstance(backend, HostBackend) else None
        self._buffers: dict[TensorType, Buffer] = {}
        self._rooms: list[_Room] = []
        self._on_change: Callable[[], object] | None = None

    def __call__(self) -> Buffer:
        """Return the buffer that holds the value at this moment."""
        return self.current

    def buffer(self, kind: TensorType) -> Buffer:
        """Return a private buffer of a type, which becomes the value by `hold`.

        It is the value itself, where that is private and of the type, or else does not overlap it.
        """
        if kind.shape == self.declared.type.shape:
            return self.declared
        if self._on_change is None and kind.shape == self.current.type.shape:
            return self.current
        return self._kept(kind) if self._host is None else self._in_room(kind, self._host)

    def _kept(self, kind: TensorType) -> Buffer:
        if kind not in self._buffers:
            if len(self._buffers) >= MOST_BUFFERS:
                self._buffers.pop(next(iter(self._buffers)))
            self._buffers[kind] = self._backend.allocate(kind)
        return self._buffers[kind]

    def _in_room(self, kind: TensorType, backend: HostBackend) -> Buffer:
        room = self._free_room(kind, backend)
        if room.latest is None or room.latest.type.shape != kind.shape:
            room.latest = backend.resized(room.whole, kind)
        return room.latest

    def _free_room(self, kind: TensorType, backend: HostBackend) -> _Room:
        """Return one of at most two rooms, in which the value is not; one that is too small at least doubles."""
        free = [room for room in self._rooms if not backend.overlap(room.whole, self.current)]
        for room in free:
            if room.whole.type.count >= kind.count:
                return room
        count = kind.count
        if free:
            count = max(count, 2 * free[0].whole.type.count)
            self._rooms.remove(free[0])
        made = _Room(backend.allocate(TensorType(kind.dtype, (count,))))
        self._rooms.append(made)
        return made

    def hold(self, buffer: Buffer, on_change: Callable[[], object] | None = None) -> None:
        """Take a buffer as the value; ``on_change`` is called when another takes its place."""
        forget, self._on_change = self._on_change, on_change
        self.current = buffer
        if forget is not None:
            forget()

    def detach(self) -> None:
        """Take a private copy of the value."""
        own = self.buffer(self.current.type)
        if own is not self.current:
            self._backend.bind_copy(self.current, own)()
            self.hold(own)

    def rebind(self) -> None:
        """Take the buffer of the declared shape as the value."""
        self.hold(self.declared)
