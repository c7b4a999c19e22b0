"""Persistent variables of a program that a device keeps: copied to the memory that the host sees, and back."""

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


def take_over(
    program: StateProgram, memory: ProgramMemory, backend: DeviceBackend, rooms: Mapping[str, TensorType]
) -> None:
    """Give the variables of memory the values that a program has; ``rooms`` are the types of caches there."""
    values = program.get()
    for name in memory.persistent():
        if name not in values:
            continue
        if memory.is_cache(name):
            _take_over_cache(memory.cache(name), values, rooms[name])
        else:
            backend.write(memory.buffer(name), values[name])


def hand_over(
    program: StateProgram, memory: ProgramMemory, backend: DeviceBackend, rooms: Mapping[str, TensorType]
) -> None:
    """Give a program the values that the variables of memory have; ``rooms`` are the types of caches there.

    Raises:
        CacheLimitError: a cache has grown further than the program has room for.
    """
    program.reset()
    values = program.get()
    for name in memory.persistent():
        if name not in values:
            continue
        if memory.is_cache(name):
            _hand_over_cache(memory.cache(name), values, rooms[name])
        else:
            values[name] = np.asarray(backend.read(memory.buffer(name)))
    program.set(values)


def _take_over_cache(shared: SharedCache, values: Mapping[str, Array], kind: TensorType) -> None:
    cache = shared.cache
    counts = [int(values[f"{cache.name}.{formal}"]) for formal in cache.autos]
    room, axes = _elements(values[cache.name], kind), len(cache.indices)
    sizes = [
        int(values[f"{cache.name}.{formal}"]) if f"{cache.name}.{formal}" in values else bound
        for formal, bound in zip(cache.indices, room.shape, strict=False)
    ]
    extents = cache.check(counts, [tuple(sizes)] if axes else [])
    shared.load(counts, room[tuple(map(slice, (*sizes, *extents)))].copy())


def _hand_over_cache(shared: SharedCache, values: dict[str, Array], kind: TensorType) -> None:
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
