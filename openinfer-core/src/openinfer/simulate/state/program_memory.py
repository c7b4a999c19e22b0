"""Variables of an executor: their buffers, initial values and life cycle (``specification: runtime.memory``)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from openinfer.errors import DeviceError
from openinfer.ir.nodes import CacheRead, Op, Transfer
from openinfer.ir.resolved import Storage
from openinfer.simulate.state.buffers import Buffers
from openinfer.simulate.state.caches import SharedCache, make_cache
from openinfer.simulate.state.initial import InitialValues

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.ir.resolved import PrefixTable, ResolvedGraph, ResolvedVar
    from openinfer.model import Model
    from openinfer.simulate.devices.backend import Buffer, DeviceBackend
    from openinfer.simulate.state.memory import Saved
    from openinfer.simulate.state.varying import Varying

    Array: TypeAlias = npt.NDArray[Any]

_KEPT = frozenset({Storage.PERSISTENT, Storage.CONSTANT, Storage.VOLATILE})
"""Kinds of variables whose values outlast a step."""


class ProgramMemory:
    """The memory of an executor's program, as a `Memory` and between steps.

    Attributes:
        buffers: those of plain variables and temporaries.
        entries: buffers of entries of prefix tables that were read, apart from those that another memory has.
        caches: those of this memory; none where another has them.
        initial: makes buffers with initial values.
        initialisers: calls that give the variables that have buffers here their initial values.
    """

    def __init__(
        self, resolved: ResolvedGraph, model: Model, backend: DeviceBackend, base: ProgramMemory | None = None
    ) -> None:
        self._base = base
        self._resolved = resolved
        self._model = model
        self._backend = backend
        self.initial = InitialValues(model, backend)
        self.buffers = Buffers(resolved.variables, backend, self._made)
        self.entries: dict[tuple[str, tuple[int, ...]], Buffer] = {}
        self.caches: dict[str, SharedCache] = {}
        self.initialisers: dict[str, BoundCall] = {}
        self._initialisers_of_base: Mapping[str, BoundCall] = {} if base is None else base.initialisers
        self._resets: tuple[BoundCall, ...] = ()
        self._made_at_reset = 0
        self._inserted: set[str] = set()
        self._written = frozenset(written_names(resolved))
        variables = resolved.variables.values()
        self._temporaries = frozenset(v.name for v in variables if v.storage is Storage.TEMPORARY)
        self._dynamic = frozenset(v.name for v in variables if v.storage is Storage.DYNAMIC)
        volatile = (v for v in variables if v.storage is Storage.VOLATILE and v.initial is not None)
        self._initialised = tuple(v.name for v in volatile if v.name in self._written)
        unset = (v.name for v in variables if v.storage is Storage.DYNAMIC and v.initial is None)
        self.conditional = self._temporaries.union(unset)
        self.available: set[str] = set()

    @property
    def is_derived(self) -> bool:
        """Whether persistent values and weights are those of another memory."""
        return self._base is not None

    @property
    def variables(self) -> Mapping[str, ResolvedVar]:
        return self._resolved.variables

    @property
    def tables(self) -> Mapping[str, PrefixTable]:
        return self._resolved.tables

    def buffer(self, name: str) -> Buffer:
        return self.buffers.buffer(name)

    def _is_of_base(self, variable: ResolvedVar, base: ProgramMemory) -> bool:
        """Whether a variable has its buffer in the memory of the usual sizes: its type does not depend on them."""
        return base.variables[variable.name].type == variable.type and not variable.varying

    def _reset_of(self, name: str) -> BoundCall | None:
        """Return the call that gives a variable its initial value; None if it has none, or no buffer yet.

        A step of other sizes may have changed a buffer of the usual sizes before this memory requests it.
        """
        if name in self.initialisers or self._base is None or not self._is_of_base(self.variables[name], self._base):
            return self.initialisers.get(name)
        return self._initialisers_of_base.get(name)

    def inserted(self) -> Iterator[str]:
        """Yield the variables whose values were inserted for the next step, in the order declared."""
        return (name for name in self._resolved.variables if name in self._inserted)

    def take_inserted(self, other: ProgramMemory) -> None:
        """Take over the values that were inserted for the next step into memory of other sizes."""
        kept = {name for name in other._inserted if other.variables[name].type == self.variables[name].type}
        for name in kept:
            if self.buffer(name) is not other.buffer(name):
                self._backend.write(self.buffer(name), self._backend.read(other.buffer(name)))
        other.available -= other._inserted & other.conditional
        other._inserted.clear()
        self._inserted |= kept
        self.available |= kept

    def varying(self, name: str) -> Varying | None:
        return self.buffers.varying(name)

    def current(self, name: str) -> Buffer:
        return self.buffers.current(name)

    def save(self, name: str) -> Saved:
        return self.buffers.read(name), name in self.available

    def load(self, name: str, saved: Saved) -> None:
        content, holds_value = saved
        self.buffers.write(name, content)
        (self.available.add if holds_value else self.available.discard)(name)

    def cache(self, name: str) -> SharedCache:
        if self._base is not None:
            return self._base.cache(name)
        if name not in self.caches:
            cache = make_cache(self._resolved.variables[name], self._model)
            self.caches[name] = SharedCache(cache, self._backend)
        return self.caches[name]

    def is_cache(self, name: str) -> bool:
        decl = self._resolved.variables[name].decl
        return decl is not None and bool(decl.formals)

    def is_fixed(self, name: str) -> bool:
        storage = self._resolved.variables[name].storage
        return storage is Storage.CONSTANT or (storage is Storage.VOLATILE and name not in self._written)

    def entry(self, name: str, indices: tuple[int, ...]) -> Buffer:
        if self._base is not None and self._base.tables[name].type == self.tables[name].type:
            return self._base.entry(name, indices)
        key = (name, indices)
        if key not in self.entries:
            with _room_for(f"{name}[{','.join(map(str, indices))}]"):
                self.entries[key] = self.initial.entry(self._resolved.tables[name], indices)
        return self.entries[key]

    def restore(self, name: str) -> BoundCall:
        self.buffer(name)
        reset = self._reset_of(name)
        if reset is None:
            raise KeyError(name)
        return reset

    def insert(self, name: str, array: Array) -> None:
        """Give a dynamic variable its value for the next step."""
        self._backend.write(self.buffer(name), array)
        self.note_inserted(name)

    def note_inserted(self, name: str) -> None:
        """Let a dynamic variable have for the next step what its buffer holds."""
        self._rebind(name)
        self._inserted.add(name)
        self.available.add(name)

    def begin_step(self, *, volatile: bool = True) -> None:
        """Bring every variable to its state at the start of a step; ``volatile``: those too that the program writes."""
        self.available.difference_update(self._temporaries)
        for name in self._dynamic - self._inserted:
            self.available.discard(name)
            self._rebind(name)
            reset = self._reset_of(name)
            if reset is not None:
                reset()
        self._inserted.clear()
        for reset in self._resets_of_volatile() if volatile else ():
            reset()

    def _resets_of_volatile(self) -> tuple[BoundCall, ...]:
        """Return the calls that bring the volatile variables that have been made to their initial values.

        They are kept until another variable is made: a decoder begins a step for every token.
        """
        made = len(self.initialisers) + len(self._initialisers_of_base) + len(self.buffers.made_varying)
        if made != self._made_at_reset:
            self._made_at_reset = made
            resets: list[BoundCall] = []
            for name in self._initialised:
                if name in self.buffers.made_varying:
                    resets.append(self.buffers.made_varying[name].rebind)
                reset = self._reset_of(name)
                if reset is not None:
                    resets.append(reset)
            self._resets = tuple(resets)
        return self._resets

    def insert_again(self) -> None:
        """Use the present values of dynamic variables in the next step too."""
        there = self._dynamic - (self.conditional - self.available)
        self._inserted |= there
        self.available |= there & self.conditional

    def _rebind(self, name: str) -> None:
        varying = self.buffers.made_varying.get(name)
        if varying is not None:
            varying.rebind()

    def end_step(self) -> None:
        """Drop the temporaries."""
        self.available.difference_update(self._temporaries)

    def persistent(self) -> Iterator[str]:
        """Yield the names of persistent variables, caches included, in the order declared."""
        for variable in self._resolved.variables.values():
            if variable.storage is Storage.PERSISTENT:
                yield variable.name

    def reset(self) -> None:
        """Give every persistent variable its initial value."""
        for name in self.persistent():
            if self.is_cache(name):
                self.cache(name).reset()
            else:
                self.restore(name)()

    def live_bytes(self) -> dict[str, int]:
        """Return the bytes of all present values by kind of memory."""
        nbytes = {kind.value: 0 for kind in Storage}
        for name in self.buffers.made:
            if name not in self.conditional or name in self.available:
                nbytes[self._resolved.variables[name].storage.value] += self.current(name).type.nbytes
        for name, kind in self._kept_by_base():
            nbytes[kind.value] += self._resolved.variables[name].type.nbytes
        for (name, _), buffer in (*self.entries.items(), *self._entries_of_base()):
            nbytes[self._resolved.tables[name].storage.value] += buffer.type.nbytes
        for shared in (self._base or self).caches.values():
            nbytes[Storage.PERSISTENT.value] += shared.cache.nbytes
        return nbytes

    def _kept_by_base(self) -> Iterator[tuple[str, Storage]]:
        """Yield the variables that keep a value in the memory of the usual sizes, and were not requested here."""
        if self._base is None:
            return
        for name in self._base.buffers.made.keys() - self.buffers.made.keys():
            variable = self.variables[name]
            if variable.storage in _KEPT and self._is_of_base(variable, self._base):
                yield name, variable.storage

    def _entries_of_base(self) -> Iterator[tuple[tuple[str, tuple[int, ...]], Buffer]]:
        if self._base is not None:
            own, tables = self.tables, self._base.tables
            yield from (entry for entry in self._base.entries.items() if own[entry[0][0]] == tables[entry[0][0]])

    @property
    def written_names(self) -> frozenset[str]:
        """The variables that some statement writes, temporaries included."""
        return self._written

    def written(self) -> Iterator[str]:
        """Yield the declared variables that some statement writes, in the order declared."""
        for variable in self._resolved.variables.values():
            if variable.name in self._written and variable.decl is not None:
                yield variable.name

    def _made(self, variable: ResolvedVar) -> Buffer:
        with _room_for(variable.name):
            if self._base is not None and self._is_of_base(variable, self._base):
                return self._base.buffer(variable.name)
            return self._made_here(variable)

    def _made_here(self, variable: ResolvedVar) -> Buffer:
        kind, initial = variable.type, variable.initial
        if variable.storage is Storage.TEMPORARY:
            return self._backend.allocate(kind)
        if self.is_fixed(variable.name):
            return self.initial.fixed(variable)
        buffer = self._backend.allocate(kind)
        if initial is not None:
            call = self.initial.initialiser(initial, kind, buffer)
            call()
            self.initialisers[variable.name] = call
        return buffer


@contextmanager
def _room_for(name: str) -> Generator[None]:
    """Add the name of the variable to the error of a device that is out of memory."""
    try:
        yield
    except DeviceError as error:
        if error.code != "too-large":
            raise
        raise DeviceError(f"`{name}`: {error}", code="too-large") from error


def written_names(resolved: ResolvedGraph) -> Iterator[str]:
    """Yield the variables that some statement writes (persistent ones apart)."""
    for _, node in resolved.graph.nodes():
        if isinstance(node.kind, Op):
            yield from node.kind.outputs
        elif isinstance(node.kind, Transfer | CacheRead):
            yield node.kind.dst
