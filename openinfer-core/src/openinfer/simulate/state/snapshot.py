"""Persistent memory outside of an executor: as a value, and in a model file (``specification: runtime.host.13``).

A plain variable is a tensor of its name. A table whose entries 0, 1, ... are all there is one tensor with its sizes in
front, and a size ``NAME.INDEX.len`` for each index; another table has tensors ``NAME.i.j``. Growth counts are sizes
``NAME.INDEX.count``. Files hold bitsets as u8: they have no tensors of that type.

The checksums of the container are those of tensors. A digest in the metadata is that of all else: the program, sizes,
and names, types and shapes of tensors (``specification: runtime.host.24``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.boundary import public_methods
from openinfer.diagnostics import counted
from openinfer.dtypes import BITSET, U8
from openinfer.errors import DTypeError, ExecutionError, ShapeError
from openinfer.ir.types import TensorType
from openinfer.model import ModelContents, ModelLoader, save_model
from openinfer.packing import pack
from openinfer.simulate.logs import LogKind, log
from openinfer.simulate.values import Tensor
from openinfer_oinf.checksums import CHECKSUM_KEY

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    import numpy.typing as npt

    from openinfer.dtypes import DType
    from openinfer.ir.graph import Graph
    from openinfer.model import Model
    from openinfer.simulate.devices.backend import DeviceBackend
    from openinfer.simulate.state.cache import Cache
    from openinfer.simulate.state.entries import Index
    from openinfer.simulate.state.program_memory import ProgramMemory

    Array: TypeAlias = npt.NDArray[Any]

GRAPH_KEY = "openinfer.graph"
"""Metadata that names the program of a state."""

DIGEST_KEY = "openinfer.state.sha256"
"""Metadata with the digest of what a state holds apart from the bytes of tensors."""

MISMATCH = "state-mismatch"


@public_methods
@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The value of every persistent variable with its growth, as a model file holds it.

    Attributes:
        graph: hash of the program.
        sizes: sizes and growth counts of tables.
        tensors: plain variables, and tables or their entries.
    """

    graph: str
    sizes: Mapping[str, int]
    tensors: Mapping[str, Tensor]

    def __repr__(self) -> str:
        nbytes = sum(tensor.storage.nbytes for tensor in self.tensors.values())
        return f"<Snapshot of program {self.graph[:8]}: {counted(len(self.tensors), 'tensor')}, {nbytes:,} bytes>"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a model file, with checksums of all that it holds.

        Raises:
            ModelError: the file cannot be written.
        """
        tensors = {
            name: (_in_files(tensor.dtype), tensor.shape, tensor.storage) for name, tensor in self.tensors.items()
        }
        metadata = {GRAPH_KEY: self.graph, DIGEST_KEY: self.digest()}
        contents = ModelContents(sizevars=self.sizes, metadata=metadata, tensors=tensors, checksums=True)
        save_model(contents, path)

    def digest(self) -> str:
        """Return the SHA-256 of the program, the sizes, and the names, types in files and shapes of all tensors."""
        tensors = {name: [_in_files(tensor.dtype).name, *tensor.shape] for name, tensor in self.tensors.items()}
        text = json.dumps([self.graph, dict(self.sizes), tensors], sort_keys=True)
        return hashlib.sha256(text.encode("ascii")).hexdigest()

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Snapshot:
        """Read what `save` wrote.

        Files from before there were checksums are read without a check, which is logged as a warning.

        Raises:
            ModelError: the file cannot be read, or does not agree with its checksums.
            ExecutionError: ``state-mismatch``, it is a model file that holds no state, or is damaged.
        """
        with ModelLoader.open(path) as model:
            if not model.has_metadata_string(GRAPH_KEY):
                message = f"{str(path)!r} holds no saved state: it has no metadata {GRAPH_KEY!r}"
                raise ExecutionError(message, code=MISMATCH)
            tensors = {
                name: Tensor(info.dtype, info.shape, model.load_raw(name).copy())
                for name, info in model.tensors.items()
            }
            snapshot = Snapshot(model.load_metadata_string(GRAPH_KEY), dict(model.sizevars), tensors)
            if set(model.metadata) == {GRAPH_KEY}:
                message = f"{str(path)!r} has no checksums: damage to the state in it would not be noticed"
                log(LogKind.WARNING, f"{message}; save it again with Executor.snapshot")
            elif not _agrees(snapshot, model):
                message = f"{str(path)!r} is damaged: its program, sizes, names or types are not those that were saved"
                raise ExecutionError(f"{message}; use another copy of the file", code=MISMATCH)
            return snapshot


def _agrees(snapshot: Snapshot, model: Model) -> bool:
    """Whether a file has the digest of what was read from it, and no metadata under a name that changed."""
    is_known = set(model.metadata) <= {GRAPH_KEY, DIGEST_KEY, CHECKSUM_KEY}
    return (
        is_known
        and model.has_metadata_string(DIGEST_KEY)
        and model.load_metadata_string(DIGEST_KEY) == snapshot.digest()
    )


def _in_files(dtype: DType) -> DType:
    return U8 if dtype is BITSET else dtype


def graph_hash(graph: Graph) -> str:
    """Return the SHA-256 of a program's canonical text."""
    return hashlib.sha256(graph.to_dsl().encode()).hexdigest()


def take_snapshot(graph: Graph, memory: ProgramMemory, backend: DeviceBackend) -> Snapshot:
    """Return a copy of all persistent memory."""
    sizes: dict[str, int] = {}
    tensors: dict[str, Tensor] = {}
    for name in memory.persistent():
        if memory.is_cache(name):
            _save_cache(memory.cache(name).cache, sizes, tensors)
        else:
            buffer = memory.buffer(name)
            tensors[name] = Tensor(buffer.type.dtype, buffer.type.shape, backend.read(buffer))
    return Snapshot(graph_hash(graph), sizes, tensors)


def _save_cache(cache: Cache, sizes: dict[str, int], tensors: dict[str, Tensor]) -> None:
    contents = cache.contents()
    sizes |= {f"{cache.name}.{formal}.count": count for formal, count in zip(cache.autos, cache.counts, strict=True)}
    if isinstance(contents, Mapping):
        tensors |= {_entry_name(cache, index): _tensor(cache, entry) for index, entry in contents.items()}
        return
    sizes |= {f"{cache.name}.{formal}.len": size for formal, size in zip(cache.indices, contents.shape, strict=False)}
    tensors[cache.name] = _tensor(cache, contents)


def _entry_name(cache: Cache, index: Index) -> str:
    return ".".join((cache.name, *map(str, index)))


def _tensor(cache: Cache, array: Array) -> Tensor:
    stored = pack(array, cache.dtype) if cache.dtype.is_packed else np.array(array, order="C", copy=True)
    return Tensor(cache.dtype, array.shape, stored)


def restore_snapshot(
    snapshot: Snapshot, graph: Graph, memory: ProgramMemory, backend: DeviceBackend, *, force: bool
) -> None:
    """Give persistent variables the values of a snapshot: all of them, or none when one does not fit.

    Raises:
        ExecutionError: ``state-mismatch``, it is of another program, or incomplete, unless ``force`` is set: then
            variables that only one of both has are passed over.
        DTypeError, ShapeError, CacheLimitError: a value does not fit its declaration.
    """
    if not force and snapshot.graph != graph_hash(graph):
        message = "the state was saved by another program"
        advice = "use another file for this one, or restore it in Python with force=True"
        raise ExecutionError(f"{message}: {advice}", code=MISMATCH)
    changes = {name: _change(memory, name, snapshot, backend) for name in memory.persistent()}
    missing = [f"`{name}`" for name, change in changes.items() if change is None]
    if missing and not force:
        message = f"the state is incomplete, it has no {', '.join(missing)}: restore it with force=True to keep those"
        raise ExecutionError(message, code=MISMATCH)
    for change in changes.values():
        if change is not None:
            change()


def _change(
    memory: ProgramMemory, name: str, snapshot: Snapshot, backend: DeviceBackend
) -> Callable[[], object] | None:
    """Check the value of a variable, and return a call that restores it; None if the snapshot has no value."""
    if memory.is_cache(name):
        return _restored_cache(memory, name, snapshot)
    return _restored(memory, name, snapshot, backend)


def _restored(
    memory: ProgramMemory, name: str, snapshot: Snapshot, backend: DeviceBackend
) -> Callable[[], object] | None:
    tensor = snapshot.tensors.get(name)
    if tensor is None:
        return None
    buffer = memory.buffer(name)
    _check(name, tensor, buffer.type)
    return lambda: backend.write(buffer, tensor.storage)


def _restored_cache(memory: ProgramMemory, name: str, snapshot: Snapshot) -> Callable[[], object] | None:
    shared = memory.cache(name)
    cache = shared.cache
    counts = [snapshot.sizes.get(f"{name}.{formal}.count", 0) for formal in cache.autos]
    whole = snapshot.tensors.get(name)
    entries = {} if whole is not None else _entries(cache, snapshot)
    if whole is None and not entries:
        return None
    axes = len(cache.indices)
    sizes = [tuple(position + 1 for position in index) for index in entries] if whole is None else [whole.shape[:axes]]
    extents = cache.check(counts, sizes)
    for index, tensor in entries.items():
        _check(_entry_name(cache, index), tensor, TensorType(cache.dtype, extents))
    if whole is None:
        return lambda: shared.load(counts, {index: tensor.array for index, tensor in entries.items()})
    lengths = tuple(snapshot.sizes.get(f"{name}.{formal}.len", -1) for formal in cache.indices)
    _check(name, whole, TensorType(cache.dtype, (*lengths, *extents)))
    return lambda: shared.load(counts, whole.array)


def _entries(cache: Cache, snapshot: Snapshot) -> dict[Index, Tensor]:
    entries: dict[Index, Tensor] = {}
    for name, tensor in snapshot.tensors.items():
        head, *places = name.split(".")
        digits = all(text.isascii() and text.isdigit() for text in places)
        if head == cache.name and len(places) == len(cache.indices) and digits:
            entries[tuple(map(int, places))] = tensor
    return entries


def _check(name: str, tensor: Tensor, wanted: TensorType) -> None:
    message = f"the state holds `{name}` as {TensorType(tensor.dtype, tensor.shape)}, the program needs {wanted}"
    if tensor.dtype not in (wanted.dtype, _in_files(wanted.dtype)):
        raise DTypeError(message, code=MISMATCH)
    if tensor.shape != wanted.shape:
        raise ShapeError(message, code=MISMATCH)
