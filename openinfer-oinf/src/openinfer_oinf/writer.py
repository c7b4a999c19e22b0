"""Writing a container as a stream: everything is declared first, then payloads land at their final places."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import BinaryIO, cast

import numpy as np

from .arrays import Array
from .atomicfile import AtomicFile
from .checksums import CHECKSUM_KEY, RESERVED_PREFIX, checksum_payload
from .contents import SizeVar, whole_dims
from .encoding import as_array, encoded_blocks, joined_blocks
from .errors import Finding, OinfError
from .fileplan import FilePlan, TensorDeclaration, plan_file
from .layout import INDEX_SUFFIX, WRITE_NDIM, check_name
from .limits import Limits
from .metadata import MetadataPayload, encode_metadata
from .payloads import metadata_problems
from .progress import advance
from .quant import QuantParams, fitted
from .source import MemorySource
from .tables import MetadataEntry
from .valuecheck import reader_of, value_problem
from .valuetypes import ValueType, element_type, value_type

WriteTarget = str | os.PathLike[str] | BinaryIO


def _rejected(code: str, message: str, table: str, entry: str) -> OinfError:
    return OinfError(Finding(code=code, message=message, table=table, entry=entry))


def _about(error: OinfError, table: str, entry: str) -> OinfError:
    """The same error, with the entry that it is about."""
    first = error.first
    return _rejected(first.code, first.message, table, entry)


class OinfWriter:
    """Writes one container to a path (replaced in one step at the end) or to a seekable binary file object.

    `version` 2 or 1; `align` bytes for tensor data (8 to 4096); `checksums` adds a SHA-256 of every tensor, which
    `oinf verify --deep` checks; `allow_case_collisions` lets names of one table be
    equal ignoring case; `allow_any_scale` lets quantisation scales be zero or negative. As a context manager it
    completes the file, or, after an exception, leaves what was there before; so does one that is dropped without
    `close`. Memory: one block at a time.
    """

    def __init__(
        self,
        target: WriteTarget,
        *,
        version: int = 2,
        align: int = 8,
        checksums: bool = False,
        allow_case_collisions: bool = False,
        allow_any_scale: bool = False,
    ) -> None:
        if isinstance(target, str | os.PathLike) and os.fspath(target).endswith(INDEX_SUFFIX):
            message = f"a name that ends in {INDEX_SUFFIX} is that of a shard index, not of a container"
            raise OinfError(Finding(code="E_SHARDS", message=message), source=os.fspath(target))
        self._target = target
        self._version = version
        self._align = align
        self._digests: dict[str, bytes] | None = {} if checksums else None
        self._allow_case_collisions = allow_case_collisions
        self._allow_any_scale = allow_any_scale
        self._sizevars: dict[str, int] = {}
        self._metadata: dict[str, MetadataPayload] = {}
        self._tensors: dict[str, TensorDeclaration] = {}
        self._folded: dict[tuple[str, str], str] = {}
        self._plan: FilePlan | None = None
        self._atomic: AtomicFile | None = None
        self._file: BinaryIO | None = None
        self._unwritten: set[str] = set()
        self._warnings: list[Finding] = []
        self._is_done = False

    def sizevar(self, name: str, value: int) -> None:
        """Add a size variable, 0 to 2**64 - 1. Raises `OinfError`: E_NAME, E_DUPLICATE, E_CASE, E_VALUE."""
        self._claim("sizevars", name)
        try:
            self._sizevars[name] = SizeVar(value).value
        except OinfError as error:
            raise _about(error, "sizevars", name) from error

    def metadata(self, name: str, value: object) -> None:
        """Add a metadata value: bool, int, float, str, `Bitset`, `ScalarValue`, a list or an array.

        Raises `OinfError`: E_NAME (also for keys that begin with `oinf.`, which are the tools'), E_DUPLICATE, E_CASE,
        E_META_TYPE, E_VALUE.
        """
        if name.startswith(RESERVED_PREFIX):
            message = f"keys that begin with {RESERVED_PREFIX!r} are reserved for tools"
            raise _rejected("E_NAME", message, "metadata", name)
        try:
            payload = encode_metadata(name, value)
        except OinfError as error:
            raise _about(error, "metadata", name) from error
        self._add_metadata(name, payload)

    def metadata_raw(self, name: str, dtype: str | int | ValueType, stored: bytes) -> None:
        """Add a metadata value by its stored bytes, as `payload` of a reader's metadata gives them.

        Raises `OinfError` with the code that a reader would give for such bytes.
        """
        kind = value_type(dtype)
        entry = MetadataEntry(name, 0, kind.tag, 0, len(stored), 0)
        for code, message in metadata_problems(entry, MemorySource(stored), Limits(), values=True):
            raise _rejected(code, message, "metadata", name)
        self._add_metadata(name, MetadataPayload(kind.tag, stored))

    def _add_metadata(self, name: str, payload: MetadataPayload) -> None:
        self._claim("metadata", name)
        self._metadata[name] = payload
        if payload.troubles_reference:
            message = "the compiled loader of the reference implementation cannot load this value"
            self._warnings.append(Finding(code="W_LOADER", message=message, table="metadata", entry=name))

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What is allowed, and odd, in what has been declared."""
        return tuple(self._warnings)

    def declare(
        self,
        name: str,
        dtype: str | int | ValueType,
        shape: Iterable[int],
        *,
        data: bool = True,
        quant: QuantParams | None = None,
    ) -> None:
        """Announce a tensor of `shape` (in elements); with `data=False` it stays without values.

        Raises `OinfError`: E_NAME, E_DUPLICATE, E_CASE, E_DTYPE, E_SHAPE, E_NDIM, E_DIM_OVERFLOW, E_QUANT,
        E_QUANT_VALUE.
        """
        try:
            kind = element_type(dtype)
            dims = _checked_shape(shape, kind)
            if quant is not None:
                quant = fitted(quant, kind, dims, any_scale=self._allow_any_scale)
        except OinfError as error:
            raise _about(error, "tensors", name) from error
        self._claim("tensors", name)
        self._tensors[name] = TensorDeclaration(name=name, dtype=kind, shape=dims, has_data=data, quant=quant)

    def _claim(self, table: str, name: str) -> None:
        if self._plan is not None or self._is_done:
            raise _rejected("E_STATE", "everything is declared before the first payload is written", table, name)
        check_name(name, table)
        other = self._folded.get((table, name.lower()))
        if other == name:
            raise _rejected("E_DUPLICATE", "the name occurs twice in the table", table, name)
        if other is not None and not self._allow_case_collisions:
            message = f"{name!r} equals {other!r} ignoring case (allow_case_collisions permits it)"
            raise _rejected("E_CASE", message, table, name)
        if name in (self._sizevars, self._metadata, self._tensors)[_TABLES.index(table)]:
            raise _rejected("E_DUPLICATE", "the name occurs twice in the table", table, name)
        self._folded[table, name.lower()] = name

    def plan(self) -> FilePlan:
        """The layout of all that has been declared; its `file_size` is the exact size of the file."""
        if self._plan is not None:
            return self._plan
        metadata = self._metadata
        if self._digests is not None:
            metadata = metadata | {CHECKSUM_KEY: checksum_payload([b""] * len(self._tensors))}
        return plan_file(self._sizevars, metadata, self._tensors.values(), version=self._version, align=self._align)

    def write(self, name: str, data: object) -> None:
        """Write the values of a declared tensor: an array (or nested lists) of its shape, or an iterator of blocks.

        Blocks are arrays that follow one another in C order, split anywhere. Raises `OinfError`: E_NAME for a name
        not declared, E_SHAPE, E_DATA_SIZE, E_DTYPE, E_VALUE.
        """
        declared = self._declared(name)
        try:
            if isinstance(data, Iterator):
                self._write_blocks(declared, joined_blocks(cast("Iterator[object]", data), declared.dtype))
                return
            array = as_array(data, declared.dtype)
            if array.shape != declared.shape:
                message = f"values of shape {array.shape} where {declared.shape} was declared"
                raise _rejected("E_SHAPE", message, "tensors", name)
            blocks = ((0, block) for block in encoded_blocks(array, declared.dtype))
            self._write_blocks(declared, blocks, counted=declared.count)
        except OinfError as error:
            raise _about(error, "tensors", name) from error

    def write_raw(self, name: str, stored: bytes | bytearray | memoryview | Array | Iterator[Array]) -> None:
        """Write stored bytes as they are, as `raw` of a reader gives them, whole or as an iterator of uint8 blocks.

        Blocks hold whole elements. Raises `OinfError`: E_NAME, E_DATA_SIZE, E_VALUE.
        """
        declared = self._declared(name)
        if isinstance(stored, Iterator):
            self._write_blocks(declared, _counted(declared, stored))
            return
        view = np.frombuffer(stored, np.uint8) if len(stored) else np.empty(0, np.uint8)
        if view.size != declared.nbytes:
            raise _rejected("E_DATA_SIZE", f"{view.size} bytes where {declared.nbytes} are due", "tensors", name)
        self._write_blocks(declared, _counted(declared, iter([view])), counted=0 if view.size else declared.count)

    def _declared(self, name: str) -> TensorDeclaration:
        declared = self._tensors.get(name)
        if declared is None or not declared.has_data:
            raise _rejected("E_NAME", "no tensor of that name has been declared with data", "tensors", name)
        return declared

    def _write_blocks(
        self, declared: TensorDeclaration, blocks: Iterator[tuple[int, Array]], *, counted: int = 0
    ) -> None:
        plan, file = self._begin()
        self._unwritten.add(declared.name)
        position = plan.tensors[declared.name].offset
        end = position + declared.nbytes
        digest = hashlib.sha256()
        for elements, block in blocks:
            counted += elements
            if position + block.nbytes > end or counted > declared.count:
                raise _rejected("E_DATA_SIZE", f"more values than {declared.count}", "tensors", declared.name)
            _write_at(file, position, block)
            position += block.nbytes
            advance(block.nbytes)
            if self._digests is not None:
                digest.update(block.data)
        if counted != declared.count:
            message = f"{counted} values where {declared.count} are due"
            raise _rejected("E_DATA_SIZE", message, "tensors", declared.name)
        self._unwritten.discard(declared.name)
        if self._digests is not None:
            digest.update(plan.quants[declared.name].data if declared.name in plan.quants else b"")
            self._digests[declared.name] = digest.digest()

    def _write_checksums(self, plan: FilePlan, file: BinaryIO, digests: dict[str, bytes]) -> None:
        """Fill in what the layout left room for, in the order of the tensor table."""
        for name, place in plan.quants.items():
            digests.setdefault(name, hashlib.sha256(place.data).digest())
        for name, place in plan.tensors.items():
            if not place.nbytes:
                digests.setdefault(name, hashlib.sha256().digest())
        rows = [digests.get(name, b"") for name in sorted(self._tensors)]
        _write_at(file, plan.metadata[CHECKSUM_KEY].offset, checksum_payload(rows).data)

    def _begin(self) -> tuple[FilePlan, BinaryIO]:
        """Fix the layout and write everything that is known without tensor values."""
        if self._is_done:
            raise OinfError(Finding(code="E_CLOSED", message="the file has been completed or given up"))
        if self._plan is not None and self._file is not None:
            return self._plan, self._file
        plan = self.plan()
        if isinstance(self._target, str | os.PathLike):
            self._atomic = AtomicFile(self._target)
            file = self._atomic.file
        else:
            file = self._target
            file.seek(0)
            file.truncate()
        self._plan, self._file = plan, file
        self._unwritten = set(plan.tensors)
        if self._atomic is None or not self._atomic.reserve(plan.file_size):
            # Writing the last byte sets the size: what lies between payloads reads as zeros.
            _write_at(file, plan.file_size - 1, b"\0")
        _write_at(file, 0, plan.index)
        for place in (*plan.metadata.values(), *plan.quants.values()):
            _write_at(file, place.offset, place.data)
        return plan, file

    def close(self) -> None:
        """Complete the file and put it in its place; raises `OinfError` (E_UNWRITTEN) when values are missing."""
        if self._is_done:
            return
        try:
            plan, file = self._begin()
            missing = sorted(name for name in self._unwritten if plan.tensors[name].nbytes)
            if missing:
                message = f"declared but never written: {', '.join(missing[:5])}" + (" ..." if missing[5:] else "")
                raise _rejected("E_UNWRITTEN", message, "tensors", missing[0])
            if self._digests is not None:
                self._write_checksums(plan, file, self._digests)
        except BaseException:
            self.discard()
            raise
        self._is_done = True
        if self._atomic is not None:
            self._atomic.commit()

    def discard(self) -> None:
        """Give the file up; what was at the path before stays."""
        if not self._is_done and self._atomic is not None:
            self._atomic.discard()
        self._is_done = True

    def __enter__(self) -> OinfWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()


_TABLES = ("sizevars", "metadata", "tensors")


def _counted(declared: TensorDeclaration, blocks: Iterator[Array]) -> Iterator[tuple[int, Array]]:
    """Blocks of stored bytes with the elements they hold, once those are known to be values."""
    left, bits = declared.count, declared.dtype.bits
    for block in blocks:
        count = min(left, block.nbytes * 8 // bits)
        problem = value_problem(reader_of(block.data), declared.dtype, count)
        if problem is not None:
            raise _rejected("E_VALUE", problem, "tensors", declared.name)
        left -= count
        yield count, block


def _checked_shape(shape: Iterable[int], kind: ValueType) -> tuple[int, ...]:
    dims = whole_dims(shape)
    if len(dims) > WRITE_NDIM:
        raise OinfError(Finding(code="E_NDIM", message=f"{len(dims)} dimensions; at most {WRITE_NDIM} can be written"))
    product = 1
    for dim in dims:
        product *= max(dim, 1)
    if any(dim < 0 for dim in dims) or max(product, kind.stored_nbytes(product)) > Limits().product:
        message = f"the dimensions {dims} are negative or too large"
        raise OinfError(Finding(code="E_DIM_OVERFLOW", message=message))
    return dims


def _write_at(file: BinaryIO, offset: int, data: bytes | Array) -> None:
    if not len(data):
        return
    view = memoryview(data if isinstance(data, bytes) else data.data).cast("B")
    file.seek(offset)
    while len(view):
        # An unbuffered file may take less than it is given.
        view = view[file.write(view) :]
