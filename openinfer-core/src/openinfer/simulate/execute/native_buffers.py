"""Handles of a device and of its buffers for other code of the same API (``specification: runtime.host.21``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openinfer.errors import UnsupportedError
from openinfer.ir.resolved import Storage
from openinfer.simulate.devices.backend import NativeBackend
from openinfer.simulate.execute.step_sizes import free_axes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.ir.resolved import ResolvedVar
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

    def buffer(self, name: str, memory: ProgramMemory, free: frozenset[str]) -> object:
        """Return the handle of a variable's buffer.

        Args:
            name: the variable.
            memory: holds the buffer.
            free: sizes that may differ from step to step.

        Raises:
            UnsupportedError: the device offers none, or the variable is neither dynamic nor volatile, or its shape may
                differ from step to step.
            DeviceError: it is closed, or lost.
        """
        variable = memory.variables.get(name)
        if variable is None or not _has_one_buffer(variable, free):
            message = (
                f"`{name}` has no buffer for other code: only dynamic and volatile variables of one shape have one"
            )
            raise UnsupportedError(message)
        self._known[name] = buffer = self._offering().native_buffer(memory.buffer(name))
        return buffer

    def split(self, values: Mapping[str, Any], memory: ProgramMemory) -> tuple[list[str], dict[str, Any]]:
        """Return the dynamic variables whose value is the handle of their own buffer, and the other values.

        Raises:
            DeviceError: the device is closed, or lost, so that such a buffer is gone.
        """
        own = (name for name, value in values.items() if value is not None and self._known.get(name) is value)
        native = [name for name in own if memory.variables[name].storage is Storage.DYNAMIC]
        for name in native:
            self._offering().native_buffer(memory.buffer(name))
        return native, {name: value for name, value in values.items() if name not in native}

    def _offering(self) -> NativeBackend:
        if not isinstance(self._backend, NativeBackend):
            message = f"device {self._backend.name} has no handles for other code: insert and fetch values"
            raise UnsupportedError(message)
        return self._backend


def _has_one_buffer(variable: ResolvedVar, free: frozenset[str]) -> bool:
    is_shared = variable.storage in (Storage.DYNAMIC, Storage.VOLATILE)
    return is_shared and not variable.varying and not free_axes(variable, free)
