"""Persistent variables that a device keeps, copied to and from the memory of the executor on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from openinfer.errors import CacheLimitError
from openinfer.packing import pack, unpack

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.ir.types import TensorType
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.simulate.devices.backend import DeviceBackend
    from openinfer.simulate.devices.programs import Array, StateProgram
    from openinfer.simulate.state.caches import SharedCache
    from openinfer.simulate.state.program_memory import ProgramMemory


class DeviceState:
    """The state of a program, which both the device and memory hold, and which of the two has its latest values."""

    def __init__(self, memory: ProgramMemory, backend: DeviceBackend, rooms: Mapping[str, TensorType]) -> None:
        """Begin before the first step.

        Args:
            memory: holds initial values, unless it is that of other sizes, which have run.
            rooms: types of the caches at full size.
        """
        self._memory, self._backend, self._rooms = memory, backend, rooms
        self._program: StateProgram | None = None
        self._is_ahead, self._is_stale = False, memory.is_derived

    def settle(self, *, changing: bool = False) -> None:
        """Let memory have the latest values; ``changing``: it is about to change them."""
        if self._is_ahead and self._program is not None:
            _copy_to_memory(self._program, self._memory, self._backend, self._rooms)
            self._is_ahead = False
        self._is_stale |= changing

    def catch_up(self, program: StateProgram) -> None:
        """Let the device have the latest values, which the next step of ``program`` may change.

        Raises:
            CacheLimitError: a cache has grown further than the program has room for.
        """
        if self._is_stale:
            _copy_to_program(program, self._memory, self._backend, self._rooms)
            self._is_stale = False
        self._program, self._is_ahead = program, True


def state_of(plan: ExecutionPlan, memory: ProgramMemory, backend: DeviceBackend) -> DeviceState:
    """Return the state of a plan before its first step."""
    return DeviceState(memory, backend, {state.name: state.type for state in plan.states})


def _copy_to_memory(
    program: StateProgram, memory: ProgramMemory, backend: DeviceBackend, rooms: Mapping[str, TensorType]
) -> None:
    """Copy persistent variables of a program to memory; ``rooms`` are the types of its caches at full size."""
    values = program.get()
    for name in memory.persistent():
        if name not in values:
            continue
        if memory.is_cache(name):
            _cache_to_memory(memory.cache(name), values, rooms[name])
        else:
            backend.write(memory.buffer(name), values[name])


def _copy_to_program(
    program: StateProgram, memory: ProgramMemory, backend: DeviceBackend, rooms: Mapping[str, TensorType]
) -> None:
    """Copy persistent variables from memory to a program; ``rooms`` are the types of its caches at full size.

    Raises:
        CacheLimitError: a cache has grown further than the program has room for.
    """
    program.reset()
    values = program.get()
    for name in memory.persistent():
        if name not in values:
            continue
        if memory.is_cache(name):
            _cache_to_program(memory.cache(name), values, rooms[name])
        else:
            values[name] = np.asarray(backend.read(memory.buffer(name)))
    program.set(values)


def _cache_to_memory(shared: SharedCache, values: Mapping[str, Array], kind: TensorType) -> None:
    cache = shared.cache
    counts = [int(values[f"{cache.name}.{formal}"]) for formal in cache.autos]
    room, axes = _elements(values[cache.name], kind), len(cache.indices)
    sizes = [
        int(values[f"{cache.name}.{formal}"]) if f"{cache.name}.{formal}" in values else bound
        for formal, bound in zip(cache.indices, room.shape, strict=False)
    ]
    extents = cache.check(counts, [tuple(sizes)] if axes else [])
    shared.load(counts, room[tuple(map(slice, (*sizes, *extents)))].copy())


def _cache_to_program(shared: SharedCache, values: dict[str, Array], kind: TensorType) -> None:
    cache = shared.cache
    room, contents, axes = _elements(values[cache.name], kind), cache.contents(), len(cache.indices)
    entries = {(): contents} if not isinstance(contents, dict) else contents
    sizes = cache.entries.sizes
    reached = (*sizes, *cache.extents)
    if any(size > bound for size, bound in zip(reached, room.shape, strict=True)):
        message = f"`{cache.name}` has the extents {list(reached)}, the program has room for {list(room.shape)}"
        raise CacheLimitError(message)
    for index, entry in entries.items():
        room[(*index, *map(slice, entry.shape))] = entry
    values[cache.name] = pack(room, kind.dtype) if kind.dtype.is_packed else room
    grown = dict(zip((*cache.indices, *cache.autos), (*sizes[:axes], *cache.counts), strict=True))
    for formal, size in grown.items():
        if f"{cache.name}.{formal}" in values:
            values[f"{cache.name}.{formal}"] = np.array(size, np.int64)


def _elements(array: Array, kind: TensorType) -> Array:
    return unpack(array, kind.dtype, kind.shape) if kind.dtype.is_packed else array
