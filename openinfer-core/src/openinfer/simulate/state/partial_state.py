"""Values of the host for some persistent variables, as a snapshot (``specification: runtime.host.23``).

A plain variable takes what `Executor.insert` takes for its type. A table takes its entries in one array with its sizes
in front, and a growing matrix an array of the shape that it is to have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.diagnostics import near_or_known
from openinfer.errors import ExecutionError, ShapeError
from openinfer.ir.resolved import Storage
from openinfer.ir.types import TensorType
from openinfer.simulate.state.host import need_name
from openinfer.simulate.state.snapshot import MISMATCH, Snapshot, graph_hash
from openinfer.simulate.values import Tensor, storage_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.ir.graph import Graph
    from openinfer.ir.resolved import ResolvedVar
    from openinfer.simulate.state.cache import Cache
    from openinfer.simulate.state.program_memory import ProgramMemory


def persistent_variable(variables: Mapping[str, ResolvedVar], name: str) -> ResolvedVar:
    """Return the persistent variable of a name.

    Raises:
        ExecutionError: ``unknown-variable``, or ``state-mismatch`` for one that is not persistent.
    """
    need_name(name, "restore")
    persistent = [variable.name for variable in variables.values() if variable.storage is Storage.PERSISTENT]
    variable = variables.get(name)
    if variable is None:
        message = f"unknown variable `{name}`: {near_or_known(name, persistent, 'persistent variables')}"
        raise ExecutionError(message, code="unknown-variable")
    if variable.storage is not Storage.PERSISTENT:
        listed = ", ".join(persistent) or "none"
        message = f"`{name}` is {variable.storage.value}: only persistent variables keep a value ({listed})"
        raise ExecutionError(message, code=MISMATCH)
    return variable


def partial_snapshot(values: Mapping[str, Any], graph: Graph, memory: ProgramMemory) -> Snapshot:
    """Return a snapshot that holds these values alone.

    Raises:
        ExecutionError: ``unknown-variable``, or ``state-mismatch`` for a variable that is not persistent.
        DTypeError, ShapeError: ``insert-mismatch``, a value does not fit its variable.
    """
    sizes: dict[str, int] = {}
    tensors: dict[str, Tensor] = {}
    for name, value in values.items():
        variable = persistent_variable(memory.variables, name)
        kind = variable.type
        if memory.is_cache(name):
            cache = memory.cache(name).cache
            kind = _whole_type(cache, value)
            sizes |= _sizes(cache, kind.shape)
        stored = storage_of(value, kind, name)
        tensors[name] = Tensor(kind.dtype, kind.shape, np.array(stored, order="C", copy=True))
    return Snapshot(graph_hash(graph), sizes, tensors)


def _whole_type(cache: Cache, value: Any) -> TensorType:
    """Return the type of all entries of a cache, with the shape that a value has."""
    try:
        shape = np.shape(value)
    except ValueError as error:
        raise ShapeError(f"`{cache.name}`: {error}", code="insert-mismatch") from error
    rank = len(cache.indices) + len(cache.kind.shape)
    if len(shape) != rank:
        axes = ", ".join([*cache.indices, *map(str, cache.kind.shape)])
        message = f"`{cache.name}` takes all entries in one array of rank {rank} [{axes}], found shape {list(shape)}"
        raise ShapeError(message, code="insert-mismatch")
    return TensorType(cache.dtype, tuple(shape))


def _sizes(cache: Cache, shape: tuple[int, ...]) -> dict[str, int]:
    """Return the sizes and growth counts of a cache whose entries together have a shape."""
    extents = shape[len(cache.indices) :]
    grown = zip(cache.autos, extents, cache.kind.shape, strict=False)
    return {f"{cache.name}.{formal}.len": size for formal, size in zip(cache.indices, shape, strict=False)} | {
        f"{cache.name}.{formal}.count": max(extent - declared, 0) for formal, extent, declared in grown
    }
