"""Memory beside that of a program: for consumers that run at the same time, and for other devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.simulate.state.memory import Memory

if TYPE_CHECKING:
    from openinfer.simulate.devices.backend import Buffer, DeviceBackend
    from openinfer.simulate.state.varying import Varying


class AsideMemory(Memory):
    """Memory that shares everything with another but for some variables and prefix tables, which it has buffers of its
    own for.

    Attributes:
        own: variables that it has copies of.
        private: temporaries that only it has.
    """

    def __init__(
        self,
        shared: Memory,
        own: frozenset[str],
        backend: DeviceBackend,
        tables: frozenset[str] = frozenset(),
        private: frozenset[str] = frozenset(),
    ) -> None:
        vars(self).update(vars(shared))
        self.own = own
        self.private = private
        self._own_tables = tables
        self._beside = shared
        self._backend = backend
        self._buffers = {}
        self._varying = {}
        self._entries = {}

    def buffer(self, name: str) -> Buffer:
        """Return the buffer of a variable, its own or the shared one."""
        if not self._has(name):
            return self._beside.buffer(name)
        if name not in self._buffers:
            variable = self.variables[name]
            fixed = self.is_fixed(name)
            self._buffers[name] = self._made_fixed(variable) if fixed else self._backend.allocate(variable.type)
        return self._buffers[name]

    def varying(self, name: str) -> Varying | None:
        """Return a variable whose shape may change, its own or the shared one."""
        return super().varying(name) if self._has(name) else self._beside.varying(name)

    def _has(self, name: str) -> bool:
        return name in self.own or name in self.private

    def entry(self, name: str, indices: tuple[int, ...]) -> Buffer:
        """Return an entry of a prefix table, its own or the shared one."""
        return super().entry(name, indices) if name in self._own_tables else self._beside.entry(name, indices)
