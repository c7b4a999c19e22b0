"""Programs of a device that keep their state themselves, and its exchange with the memory that the host sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias, runtime_checkable

import numpy as np

from openinfer.errors import CacheIndexError, CacheLimitError, ExecutionError, ShapeError
from openinfer.ir.nodes import CacheDecrement, CacheIncrement, CacheRead, CacheReset, CacheWrite
from openinfer.ir.resolved import Storage
from openinfer.packing import pack, unpack
from openinfer.simulate.devices.backend import DeviceBackend
from openinfer.simulate.program.failures import Place

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.ir.types import TensorType
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.simulate.devices.backend import Buffer
    from openinfer.simulate.state.caches import SharedCache
    from openinfer.simulate.state.memory import Memory
    from openinfer.simulate.values import Tensor

    Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a step failed.

    Attributes:
        code: ``out-of-range``, ``cache-limit`` or ``shape-mismatch``.
        node: number of the statement in the graph; None: it is not known.
    """

    code: str
    message: str
    node: int | None


class StateProgram(Protocol):
    """A program with its state.

    Values are by the names of persistent variables, and ``K.t`` for how far index ``t`` of a cache ``K`` has grown. A
    cache has its whole room, with initial values where nothing was stored. Arrays are in storage form.
    """

    def step(self) -> Fault | None:
        """Run a step; one that fails keeps what it changed before."""
        ...

    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Return the shapes that results had in the latest step, of those whose shape is known at run time only."""
        ...

    def reset(self) -> None:
        """Give all variables their initial values."""
        ...

    def get(self) -> dict[str, Array]:
        """Return a copy of all variables."""
        ...

    def set(self, values: Mapping[str, Array]) -> None:
        """Give all variables their values."""
        ...


class StartedStep(Protocol):
    """A step that does not fail, and that the device may still be running."""

    def done(self) -> bool:
        """Whether the step has ended."""
        ...

    def results(self) -> Mapping[str, Tensor]:
        """Wait for the end of the step; return what the outputs were then, which later steps do not change."""
        ...


@runtime_checkable
class OverlappingProgram(StateProgram, Protocol):
    """A program whose next step can be started while the device runs one."""

    def start(self) -> StartedStep | Fault:
        """Start a step, when at most one is unfinished; return why it failed where it did, as `step`."""
        ...


@runtime_checkable
class StateBackend(DeviceBackend, Protocol):
    """A device that runs programs whose state it keeps."""

    def open_program(
        self, plan: ExecutionPlan, inputs: Mapping[str, Buffer], outputs: Mapping[str, Buffer]
    ) -> StateProgram:
        """Return a plan with memory for its state, bound to the buffers of its inputs and outputs, by name."""
        ...


def keeps_state(resolved: ResolvedGraph) -> bool:
    """Whether a program has persistent variables."""
    return any(variable.storage is Storage.PERSISTENT for variable in resolved.variables.values())


def is_followed(resolved: ResolvedGraph) -> bool:
    """Whether sizes of caches depend on which entries are there, so that state is kept entry by entry."""
    return any(isinstance(node.kind, CacheReset) and node.kind.target.slots for _, node in resolved.graph.nodes())


def raise_fault(fault: Fault, resolved: ResolvedGraph) -> NoReturn:
    """Raise the error of a step that failed, which names the statement.

    Raises:
        ExecutionError: always.
    """
    for block, node in resolved.graph.nodes():
        if node.index == fault.node:
            with Place(node, block.name):
                of_cache = isinstance(node.kind, CacheRead | CacheWrite | CacheReset | CacheIncrement | CacheDecrement)
                raise _error(fault, of_cache=of_cache)
    raise _error(fault, of_cache=False)


def _error(fault: Fault, *, of_cache: bool) -> ExecutionError:
    if fault.code == "cache-limit":
        return CacheLimitError(fault.message)
    if fault.code == "shape-mismatch":
        return ShapeError(fault.message)
    return CacheIndexError(fault.message) if of_cache else ExecutionError(fault.message, code=fault.code)


def take_over(program: StateProgram, memory: Memory, backend: DeviceBackend, rooms: Mapping[str, TensorType]) -> None:
    """Give the variables of memory the values that a program has; ``rooms`` are the types of caches there."""
    values = program.get()
    for name in memory.persistent():
        if name not in values:
            continue
        if memory.is_cache(name):
            _take_over_cache(memory.cache(name), values, rooms[name])
        else:
            backend.write(memory.buffer(name), values[name])


def hand_over(program: StateProgram, memory: Memory, backend: DeviceBackend, rooms: Mapping[str, TensorType]) -> None:
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
