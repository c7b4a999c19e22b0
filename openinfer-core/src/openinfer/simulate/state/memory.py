"""Variables of an executor: their buffers, initial values and life cycle (``specification: runtime.memory``)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.errors import DeviceError, DTypeError, DynamicUnsetError, ExecutionError, ShapeError
from openinfer.ir.nodes import CacheRead, Op, Transfer
from openinfer.ir.resolved import Filled, FromMetadata, FromTensor, PrefixTable, ResolvedVar, Storage
from openinfer.ir.types import TensorType
from openinfer.packing import pack
from openinfer.simulate.state.caches import SharedCache, make_cache
from openinfer.simulate.state.varying import Varying

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping

    import numpy.typing as npt

    from openinfer.ir.resolved import Initial, ResolvedGraph
    from openinfer.model import Model
    from openinfer.simulate.devices.backend import BoundCall, Buffer, DeviceBackend

    Array: TypeAlias = npt.NDArray[Any]
    Saved: TypeAlias = tuple[TensorType, Array, bool]
    """The type and content of a variable, and whether it holds a value."""


class Memory:
    """Buffers by variable, made when first requested.

    Attributes:
        conditional: temporaries, and dynamic variables without ``@init``: they may be absent.
        available: those of them that hold a value.
    """

    def __init__(
        self, resolved: ResolvedGraph, model: Model, backend: DeviceBackend, base: Memory | None = None
    ) -> None:
        self._base = base
        self._resolved = resolved
        self._model = model
        self._backend = backend
        self._buffers: dict[str, Buffer] = {}
        self._entries: dict[tuple[str, tuple[int, ...]], Buffer] = {}
        self._caches: dict[str, SharedCache] = {}
        self._varying: dict[str, Varying] = {}
        self._restore: dict[str, BoundCall] = {}
        self._resets: tuple[BoundCall, ...] = ()
        self._made_at_reset = 0
        self._inserted: set[str] = set()
        self._written = frozenset(_written(resolved))
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
        """Return the buffer of a plain variable or temporary; of a varying one, that of the declared shape."""
        if name not in self._buffers:
            variable = self._resolved.variables[name]
            shared = None if self._base is None else self._shared(variable, self._base)
            with _room_for(name):
                self._buffers[name] = shared or self._made(variable)
        return self._buffers[name]

    def _shared(self, variable: ResolvedVar, base: Memory) -> Buffer | None:
        """Return the buffer of a variable in the memory of the usual sizes; None if its type depends on them."""
        name = variable.name
        if base.variables[name].type != variable.type or variable.varying:
            return None
        buffer = base.buffer(name)
        if name in base._restore:
            self._restore[name] = base._restore[name]
        return buffer

    def take_inserted(self, other: Memory) -> None:
        """Take over the values that were inserted for the next step into memory of other sizes."""
        kept = {name for name in other._inserted if other.variables[name].type == self.variables[name].type}
        other._inserted.clear()
        self._inserted |= kept
        self.available |= kept

    def varying(self, name: str) -> Varying | None:
        """Return a variable to which ``cache.read`` may give another shape; None for others."""
        if not self._resolved.variables[name].varying:
            return None
        if name not in self._varying:
            self._varying[name] = Varying(self.buffer(name), self._backend)
        return self._varying[name]

    def current(self, name: str) -> Buffer:
        """Return the buffer that holds the value of a plain variable or temporary at this moment."""
        varying = self.varying(name)
        return self.buffer(name) if varying is None else varying.current

    def save(self, name: str) -> Saved:
        """Return a copy of what a plain variable or temporary holds."""
        buffer = self.current(name)
        return buffer.type, self._backend.read(buffer), name in self.available

    def load(self, name: str, saved: Saved) -> None:
        """Give a plain variable or temporary what `save` returned."""
        kind, array, there = saved
        varying = self.varying(name)
        buffer = self.buffer(name) if varying is None else varying.buffer(kind)
        self._backend.write(buffer, array)
        if varying is not None:
            varying.hold(buffer)
        if there:
            self.available.add(name)
        else:
            self.available.discard(name)

    def cache(self, name: str) -> SharedCache:
        """Return a persistent table or growing matrix."""
        if self._base is not None:
            return self._base.cache(name)
        if name not in self._caches:
            cache = make_cache(self._resolved.variables[name], self._model)
            self._caches[name] = SharedCache(cache, self._backend)
        return self._caches[name]

    def is_cache(self, name: str) -> bool:
        """Whether a variable is a table or growing matrix."""
        decl = self._resolved.variables[name].decl
        return decl is not None and bool(decl.formals)

    def is_fixed(self, name: str) -> bool:
        """Whether a variable never changes: a constant, or a volatile one that no statement writes."""
        storage = self._resolved.variables[name].storage
        return storage is Storage.CONSTANT or (storage is Storage.VOLATILE and name not in self._written)

    def entry(self, name: str, indices: tuple[int, ...]) -> Buffer:
        """Return an entry of a prefix table.

        Raises:
            ExecutionError: an index is negative, or the model has no tensor of that name.
            DTypeError, ShapeError: the model's tensor has another type than the declaration.
        """
        if self._base is not None and self._base.tables[name].type == self.tables[name].type:
            return self._base.entry(name, indices)
        key = (name, indices)
        if key not in self._entries:
            with _room_for(f"{name}[{','.join(map(str, indices))}]"):
                self._entries[key] = self._loaded_entry(self._resolved.tables[name], indices)
        return self._entries[key]

    def restore(self, name: str) -> BoundCall:
        """Return the call that gives a plain persistent variable its initial value."""
        self.buffer(name)
        return self._restore[name]

    def insert(self, name: str, array: Array) -> None:
        """Give a dynamic variable its value for the next step."""
        self._backend.write(self.buffer(name), array)
        self._rebind(name)
        self._inserted.add(name)
        self.available.add(name)

    def begin_step(self, *, volatile: bool = True) -> None:
        """Bring every variable to its state at the start of a step; ``volatile``: those too that the program writes."""
        self.available.difference_update(self._temporaries)
        for name in self._dynamic - self._inserted:
            self.available.discard(name)
            self._rebind(name)
            if name in self._restore:
                self._restore[name]()
        self._inserted.clear()
        for reset in self._resets_of_volatile() if volatile else ():
            reset()

    def _resets_of_volatile(self) -> tuple[BoundCall, ...]:
        """Return the calls that bring the volatile variables that have been made to their initial values.

        They are kept until another variable is made: a decoder begins a step for every token.
        """
        made = len(self._restore) + len(self._varying)
        if made != self._made_at_reset:
            self._made_at_reset = made
            found: list[BoundCall] = []
            for name in self._initialised:
                if name in self._varying:
                    found.append(self._varying[name].rebind)
                if name in self._restore:
                    found.append(self._restore[name])
            self._resets = tuple(found)
        return self._resets

    def insert_again(self) -> None:
        """Let the values that dynamic variables hold be those of the next step too."""
        there = self._dynamic - (self.conditional - self.available)
        self._inserted |= there
        self.available |= there & self.conditional

    def _rebind(self, name: str) -> None:
        varying = self._varying.get(name)
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
        """Return the bytes of the values that are held, by kind of memory; what is absent counts for nothing."""
        found = {kind.value: 0 for kind in Storage}
        for name in self._buffers:
            if name not in self.conditional or name in self.available:
                found[self._resolved.variables[name].storage.value] += self.current(name).type.nbytes
        for (name, _), buffer in self._entries.items():
            found[self._resolved.tables[name].storage.value] += buffer.type.nbytes
        for shared in self._caches.values():
            found[Storage.PERSISTENT.value] += shared.cache.nbytes
        return found

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
        kind, initial = variable.type, variable.initial
        if variable.storage is Storage.TEMPORARY:
            return self._backend.allocate(kind)
        if self.is_fixed(variable.name):
            return self._made_fixed(variable)
        buffer = self._backend.allocate(kind)
        if initial is not None:
            call = self._initialiser(initial, kind, buffer)
            call()
            self._restore[variable.name] = call
        return buffer

    def _made_fixed(self, variable: ResolvedVar) -> Buffer:
        """Return a buffer with the value of a variable that never changes."""
        kind, initial = variable.type, variable.initial
        if initial is not None and not isinstance(initial, Filled):
            return self._backend.upload(kind, self._initial_array(initial, kind))
        buffer = self._backend.allocate(kind)
        if initial is not None:
            self._backend.bind_fill(buffer, initial.value)()
        return buffer

    def _initialiser(self, initial: Initial, kind: TensorType, buffer: Buffer) -> BoundCall:
        if isinstance(initial, Filled):
            return self._backend.bind_fill(buffer, initial.value)
        pristine = self._backend.upload(kind, self._initial_array(initial, kind))
        return self._backend.bind_copy(pristine, buffer)

    def _initial_array(self, initial: FromTensor | FromMetadata, kind: TensorType) -> Array:
        if isinstance(initial, FromTensor):
            return self._model.load_raw(initial.name)
        array = self._model.load_metadata_tensor(initial.name)
        if array is None:
            raise ExecutionError(f"the model has no metadata `{initial.name}`", code="model-data")
        values = np.ascontiguousarray(array).astype(storage_dtype(kind.dtype))
        return pack(values, kind.dtype) if kind.dtype.is_packed else values

    def _loaded_entry(self, table: PrefixTable, indices: tuple[int, ...]) -> Buffer:
        access = f"{table.name}[{','.join(map(str, indices))}]"
        if any(index < 0 for index in indices):
            raise ExecutionError(f"`{access}` has a negative index", code="out-of-range")
        name = table.tensor_name(indices)
        info = self._model.linked(name, table.type.dtype)
        if info is None:
            message = f"`{access}` needs the model tensor `{name}`, which {self._model.name} does not have"
            raise ExecutionError(message, code="model-data")
        found = TensorType(info.dtype, info.shape)
        if found.dtype is not table.type.dtype:
            raise DTypeError(f"`{access}` is declared {table.type}, the model's `{name}` is {found}")
        if found.shape != table.type.shape:
            raise ShapeError(f"`{access}` is declared {table.type}, the model's `{name}` is {found}")
        if info.has_data:
            return self._backend.upload(found, self._model.load_raw(info.name))
        buffer = self._backend.allocate(found)
        self._backend.bind_fill(buffer, table.initial.value)()
        return buffer


@contextmanager
def _room_for(name: str) -> Generator[None]:
    """Let the error of a device without memory name the variable that it is for."""
    try:
        yield
    except DeviceError as error:
        if error.code != "too-large":
            raise
        raise DeviceError(f"`{name}`: {error}", code="too-large") from error


def _written(resolved: ResolvedGraph) -> Iterator[str]:
    """Yield the variables that some statement writes (persistent ones apart)."""
    for _, node in resolved.graph.nodes():
        if isinstance(node.kind, Op):
            yield from node.kind.outputs
        elif isinstance(node.kind, Transfer | CacheRead):
            yield node.kind.dst


def unset(memory: Memory, names: Iterable[str]) -> ExecutionError:
    """Return the error for reading variables that hold no value."""
    name = min(names)
    if memory.variables[name].storage is Storage.TEMPORARY:
        first = "anything has written it" if memory.variables[name].inferred else "its `assign` has run"
        message = f"temporary `{name}` is used before {first} in this step"
        return ExecutionError(message, code="temporary-unset")
    return DynamicUnsetError(f"dynamic `{name}` holds no value in this step: insert one before it, or declare @init")
