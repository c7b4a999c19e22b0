"""Values by name: those that the host inserts, and those that it fetches (``specification: runtime.host``)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.diagnostics import near_or_known
from openinfer.dtypes import DType, dtype_of
from openinfer.errors import DTypeError, ExecutionError
from openinfer.ir.resolved import Storage
from openinfer.ir.types import TensorType
from openinfer.simulate.state.memory import unset
from openinfer.simulate.state.slots import slots_of
from openinfer.simulate.values import MISMATCH, Tensor, storage_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType
    from typing import TypeAlias

    import numpy.typing as npt

    from openinfer.simulate.devices.backend import Buffer, DeviceBackend
    from openinfer.simulate.state.memory import Memory
    from openinfer.simulate.state.program_memory import ProgramMemory

    Array: TypeAlias = npt.NDArray[Any]

LONGEST_SHOWN = 60
"""Characters of an access that messages repeat."""

_ACCESS = re.compile(r"\s*([^\s\[\]]+)\s*(?:\[([^\[\]]*)\]\s*)?")


class Inputs:
    """Dynamic variables of a program, which take values by name."""

    def __init__(self, memory: ProgramMemory) -> None:
        self._memory = memory
        variables = memory.variables.values()
        self._dynamic = {v.name: v.type for v in variables if v.storage is Storage.DYNAMIC}
        plain = {name: kind for name, kind in self._dynamic.items() if not kind.dtype.is_packed}
        self._plain = {name: (storage_dtype(kind.dtype), kind.shape) for name, kind in plain.items()}

    def checked(self, values: Mapping[str, Any]) -> list[tuple[str, Array]]:
        """Return values by variable as `insert` takes them, with memory for each.

        Raises:
            ExecutionError: ``unknown-variable`` or ``not-dynamic``; ``too-large``, there is no memory for one.
            DTypeError, ShapeError: ``insert-mismatch``.
        """
        checked: list[tuple[str, Array]] = []
        for name, value in values.items():
            fits = type(value) is np.ndarray and value.flags.c_contiguous
            if not fits or self._plain.get(name) != (value.dtype, value.shape):
                value = storage_of(value, self.type_of(name), name)
            checked.append((name, value))
        held = _Held("")
        with held:
            for held.access, _ in checked:
                self._memory.buffer(held.access)
        return checked

    def insert(self, checked: Iterable[tuple[str, Array]]) -> None:
        """Give dynamic variables their values for the next step."""
        for name, array in checked:
            self._memory.insert(name, array)

    def type_of(self, name: str) -> TensorType:
        """Return the type of a dynamic variable.

        Raises:
            ExecutionError: ``unknown-variable`` or ``not-dynamic``.
        """
        need_name(name, "insert")
        if name in self._dynamic:
            return self._dynamic[name]
        variable = self._memory.variables.get(name)
        if variable is None and name not in self._memory.tables:
            raise ExecutionError(_unknown(name, self._dynamic, "dynamic variables"), code="unknown-variable")
        kind = "constant or volatile" if variable is None else variable.storage.value
        listed = ", ".join(self._dynamic) or "none"
        message = f"`{name}` is {kind}: only dynamic variables take values from the host ({listed})"
        raise ExecutionError(message, code="not-dynamic")


class Host:
    """Values of a memory, which can be fetched by name."""

    def __init__(self, memory: Memory, backend: DeviceBackend) -> None:
        self._memory = memory
        self._backend = backend

    def fetch(self, access: str, dtype: DType | str | None = None) -> Tensor:
        """Return a copy of a variable, of an entry of a prefix table, or of entries of a cache."""
        name, indices = self._parts(access)
        with _Held(access):
            tensor = self._cached(name, indices) if self._is_cache(name) else self._copied(self._buffer(name, indices))
        if dtype is not None and tensor.dtype is not dtype_of(dtype):
            raise DTypeError(f"`{access}` is {tensor.dtype}, requested as {dtype}")
        return tensor

    def type_of(self, access: str) -> TensorType:
        """Return the type of what `fetch` would return; plain variables are not copied for it."""
        name, indices = self._parts(access)
        if not self._is_cache(name):
            return self._buffer(name, indices).type
        with _Held(access):
            tensor = self._cached(name, indices)
        return TensorType(tensor.dtype, tensor.shape)

    def result(self, name: str) -> Tensor:
        """Return a copy of what a variable holds, temporaries of the last step included."""
        if name in self._memory.conditional - self._memory.available and not self._is_temporary(name):
            raise unset(self._memory, [name])
        with _Held(name):
            return self._cached(name, None) if self._is_cache(name) else self._copied(self._memory.current(name))

    def _copied(self, buffer: Buffer) -> Tensor:
        return Tensor(buffer.type.dtype, buffer.type.shape, self._backend.read(buffer))

    def _is_temporary(self, name: str) -> bool:
        return self._memory.variables[name].storage is Storage.TEMPORARY

    def _parts(self, access: str) -> tuple[str, str | None]:
        """Return the name, and the text in the brackets that follow it."""
        need_name(access, "fetch")
        match = _ACCESS.fullmatch(access)
        return (match.group(1), match.group(2)) if match else (access, None)

    def _is_cache(self, name: str) -> bool:
        return name in self._memory.variables and self._memory.is_cache(name)

    def _cached(self, name: str, indices: str | None) -> Tensor:
        cache = self._memory.cache(name)
        kind, stored = cache.fetch(slots_of(name, indices or "", cache.cache.formals))
        return Tensor(kind.dtype, kind.shape, stored)

    def _buffer(self, name: str, indices: str | None) -> Buffer:
        if name in self._memory.tables:
            return self._memory.entry(name, self._indices(name, indices))
        variable = self._memory.variables.get(name)
        if variable is None:
            names = [*self._memory.variables, *self._memory.tables]
            raise ExecutionError(_unknown(name, names, "variables"), code="unknown-variable")
        if indices is not None:
            raise ExecutionError(f"`{name}` is a plain variable: it takes no indices", code="not-indexable")
        if name in self._memory.conditional - self._memory.available:
            raise self._absent(name)
        return self._memory.current(name)

    def _indices(self, name: str, text: str | None) -> tuple[int, ...]:
        formals = self._memory.tables[name].formals
        example = f"{name}[{', '.join('0' for _ in formals)}]"
        if text is None:
            raise ExecutionError(f"`{name}` is a prefix table: fetch an entry such as `{example}`", code="needs-index")
        parts = [part.strip() for part in text.split(",")]
        if len(parts) != len(formals) or not all(re.fullmatch(r"-?[0-9]+", part, re.ASCII) for part in parts):
            message = f"`{name}[{text}]`: expected {len(formals)} integers, such as `{example}`"
            raise ExecutionError(message, code="index-count")
        return tuple(map(int, parts))

    def _absent(self, name: str) -> ExecutionError:
        if self._is_temporary(name):
            message = f"`{name}` is a temporary: it is there only while a step runs, once its `assign` has run"
            return ExecutionError(message, code="temporary-unset")
        return unset(self._memory, [name])


def by_name(values: object) -> Mapping[str, Any]:
    """Return a mapping of values by name; an empty one for None.

    Raises:
        DTypeError: ``insert-mismatch``, they are not a mapping.
    """
    if values is not None and not isinstance(values, Mapping):
        message = f"insert takes a mapping of names to values, found {type(values).__name__}"
        raise DTypeError(message, code=MISMATCH)
    return cast("Mapping[str, Any]", values or {})


def need_name(name: object, where: str) -> None:
    """Raise an error if the name of a variable is not a string.

    Raises:
        ExecutionError: ``unknown-variable``.
    """
    if not isinstance(name, str):
        message = f"{where} takes the names of variables as strings, found {type(name).__name__}: {name!r:.60}"
        raise ExecutionError(message, code="unknown-variable")


@dataclass(slots=True, eq=False)
class _Held:
    """Adds the requested access to errors of requests that are too large for this machine."""

    access: str

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, MemoryError | ValueError | OverflowError):
            return
        shown = self.access if len(self.access) <= LONGEST_SHOWN else f"{self.access[:LONGEST_SHOWN]}…"
        why = str(error) if isinstance(error, MemoryError) else "it passes the largest size of arrays"
        message = f"`{shown}` is more than this machine holds: {why}"
        raise ExecutionError(message, code="too-large") from error


def _unknown(name: str, names: Iterable[str], what: str) -> str:
    return f"unknown variable `{name}`: {near_or_known(name, names, what)}"
