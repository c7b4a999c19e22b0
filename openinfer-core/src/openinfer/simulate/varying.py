"""Variables to which ``cache.read`` may give another shape while a step runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.ir.types import TensorType
    from openinfer.simulate.backend import Buffer, DeviceBackend

MOST_BUFFERS = 8
"""Most private buffers that a variable keeps, one for each shape that it took."""


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
        self._buffers: dict[TensorType, Buffer] = {}
        self._on_change: Callable[[], object] | None = None

    def __call__(self) -> Buffer:
        """Return the buffer that holds the value at this moment."""
        return self.current

    def buffer(self, kind: TensorType) -> Buffer:
        """Return a private buffer of a type, which becomes the value by `hold`."""
        if kind == self.declared.type:
            return self.declared
        if kind not in self._buffers:
            if len(self._buffers) >= MOST_BUFFERS:
                self._buffers.pop(next(iter(self._buffers)))
            self._buffers[kind] = self._backend.allocate(kind)
        return self._buffers[kind]

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
