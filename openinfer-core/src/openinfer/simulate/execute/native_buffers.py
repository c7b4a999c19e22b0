"""Handles of a device and of its buffers for other code of the same API (``specification: runtime.host.21``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openinfer.errors import UnsupportedError
from openinfer.simulate.devices.backend import NativeBackend

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.simulate.devices.backend import DeviceBackend
    from openinfer.simulate.state.program_memory import ProgramMemory


class NativeBuffers:
    """The handles that one executor has handed out."""

    def __init__(self, backend: DeviceBackend) -> None:
        self._backend = backend
        self._known: dict[str, object] = {}

    def device(self) -> object:
        """Return the handles of the device.

        Raises:
            UnsupportedError: it offers none.
            DeviceError: it is closed.
        """
        return self._offering().native_device()

    def buffer(self, name: str, memory: ProgramMemory) -> object:
        """Return the handle of a variable's buffer.

        Raises:
            UnsupportedError: the device offers none.
            DeviceError: it is closed, or lost.
        """
        self._known[name] = found = self._offering().native_buffer(memory.buffer(name))
        return found

    def among(self, given: Mapping[str, Any]) -> list[str]:
        """Return the names of values that are the handle of their own buffer."""
        return [name for name, value in given.items() if value is not None and self._known.get(name) is value]

    def need(self, name: str, memory: ProgramMemory) -> None:
        """Check that a variable's buffer is still there.

        Raises:
            DeviceError: the device is closed, or lost.
        """
        self._offering().native_buffer(memory.buffer(name))

    def _offering(self) -> NativeBackend:
        if not isinstance(self._backend, NativeBackend):
            message = f"device {self._backend.name} has no handles for other code: insert and fetch values"
            raise UnsupportedError(message)
        return self._backend
