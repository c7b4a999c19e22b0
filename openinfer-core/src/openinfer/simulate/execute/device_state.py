"""Copies persistent variables between a device that keeps them and the memory of the executor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from openinfer.errors import CacheLimitError
from openinfer.packing import pack, unpack

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.ir.types import TensorType
    from openinfer.simulate.devices.backend import DeviceBackend
    from openinfer.simulate.devices.programs import Array, StateProgram
    from openinfer.simulate.state.caches import SharedCache
    from openinfer.simulate.state.program_memory import ProgramMemory


def copy_to_memory(
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


def copy_to_program(
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
