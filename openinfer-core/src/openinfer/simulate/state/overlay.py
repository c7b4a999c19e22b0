"""Memory of a consumer or of another device: own buffers for some variables, those of the program for all others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.simulate.state.buffers import Buffers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.bound_calls import BoundCall
    from openinfer.ir.resolved import PrefixTable, ResolvedVar
    from openinfer.simulate.devices.backend import Buffer, DeviceBackend
    from openinfer.simulate.state.caches import SharedCache
    from openinfer.simulate.state.memory import Memory, Saved
    from openinfer.simulate.state.varying import Varying


class OverlayMemory:
    """Memory over that of a program, or over another overlay.

    Attributes:
        copied: variables that it has copies of.
        private: temporaries that only it has.
        initial: makes its buffers with initial values.
    """

    def __init__(
        self,
        base: Memory,
        backend: DeviceBackend,
        *,
        copied: frozenset[str],
        tables: frozenset[str] = frozenset(),
        private: frozenset[str] = frozenset(),
    ) -> None:
        """Begin with nothing of its own.

        Args:
            base: the memory that has everything else.
            backend: the device of its own buffers.
            copied: variables that it has copies of.
            tables: prefix tables of which it has entries of its own.
            private: temporaries that only it has.
        """
        self.copied = copied
        self.private = private
        self._base = base
        self._backend = backend
        self._own = copied | private
        self._own_tables = tables
        self.initial = base.initial.on(backend)
        self._buffers = Buffers(base.variables, backend, self._made)
        self._entries: dict[tuple[str, tuple[int, ...]], Buffer] = {}

    @property
    def variables(self) -> Mapping[str, ResolvedVar]:
        return self._base.variables

    @property
    def tables(self) -> Mapping[str, PrefixTable]:
        return self._base.tables

    @property
    def conditional(self) -> frozenset[str]:
        return self._base.conditional

    @property
    def available(self) -> set[str]:
        return self._base.available

    def is_cache(self, name: str) -> bool:
        return self._base.is_cache(name)

    def is_fixed(self, name: str) -> bool:
        return self._base.is_fixed(name)

    def buffer(self, name: str) -> Buffer:
        return self._holder(name).buffer(name)

    def varying(self, name: str) -> Varying | None:
        return self._holder(name).varying(name)

    def current(self, name: str) -> Buffer:
        return self._holder(name).current(name)

    def cache(self, name: str) -> SharedCache:
        return self._base.cache(name)

    def entry(self, name: str, indices: tuple[int, ...]) -> Buffer:
        if name not in self._own_tables:
            return self._base.entry(name, indices)
        key = (name, indices)
        if key not in self._entries:
            self._entries[key] = self.initial.entry(self.tables[name], indices)
        return self._entries[key]

    def restore(self, name: str) -> BoundCall:
        return self._base.restore(name)

    def save(self, name: str) -> Saved:
        if name not in self._own:
            return self._base.save(name)
        return self._buffers.read(name), name in self.available

    def load(self, name: str, saved: Saved) -> None:
        if name not in self._own:
            self._base.load(name, saved)
            return
        content, holds_value = saved
        self._buffers.write(name, content)
        (self.available.add if holds_value else self.available.discard)(name)

    def _holder(self, name: str) -> Buffers | Memory:
        return self._buffers if name in self._own else self._base

    def _made(self, variable: ResolvedVar) -> Buffer:
        fixed = self.is_fixed(variable.name)
        return self.initial.fixed(variable) if fixed else self._backend.allocate(variable.type)
