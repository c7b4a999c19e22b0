"""Writing everything at once: a dataclass instance, a dict, or named arrays."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from typing import TypedDict, Unpack, cast

from .arrays import Array
from .classify import IntFields, contents_of
from .contents import Contents, TensorSpec, UninitializedTensor
from .errors import Finding, OinfError
from .fileplan import FilePlan
from .valuetypes import ValueType
from .writer import OinfWriter, WriteTarget


class WriteOptions(TypedDict, total=False):
    """Options of `OinfWriter`."""

    version: int
    align: int
    checksums: bool
    allow_case_collisions: bool
    allow_any_scale: bool


def write_oinf(
    instance: object, path: WriteTarget, *, int_fields: IntFields = "metadata", **options: Unpack[WriteOptions]
) -> None:
    """Write a dataclass instance (or a dict) to a file, replacing an older one in one step.

    `SizeVar` fields become size variables, `TensorSpec`, `UninitializedTensor` and array fields tensors, all others
    metadata. Equal contents give equal bytes. Raises `OinfError` and `OSError`; then the old file is as it was.
    """
    write_contents(contents_of(instance, int_fields=int_fields), path, **options)


def dataclass_to_oinf(
    instance: object, *, int_fields: IntFields = "metadata", **options: Unpack[WriteOptions]
) -> bytes:
    """The file that `write_oinf` would write, as bytes."""
    target = io.BytesIO()
    write_oinf(instance, target, int_fields=int_fields, **options)
    return target.getvalue()


def save_file(
    tensors: Mapping[str, object],
    path: WriteTarget,
    *,
    sizevars: Mapping[str, int] | None = None,
    metadata: Mapping[str, object] | None = None,
    **options: Unpack[WriteOptions],
) -> None:
    """Write named arrays (or `TensorSpec` and `UninitializedTensor`), with size variables and metadata."""
    tables = {"tensors": tensors, "sizevars": sizevars or {}, "metadata": metadata or {}}
    write_contents(contents_of(tables), path, **options)


def write_contents(contents: Contents, path: WriteTarget, **options: Unpack[WriteOptions]) -> None:
    """Write entries that have been sorted into tables."""
    with OinfWriter(path, **options) as writer:
        arrays = _declare(contents, writer)
        for name in sorted(arrays):
            writer.write(name, arrays[name])


def plan(
    tensors: Mapping[str, object],
    *,
    sizevars: Mapping[str, int] | None = None,
    metadata: Mapping[str, object] | None = None,
    **options: Unpack[WriteOptions],
) -> FilePlan:
    """The layout of a file before it is written: `file_size` is its exact size in bytes, and every payload has a place.

    Takes what `save_file` does. A tensor whose values are not at hand yet is given as a pair of type and shape, such as
    `("bf16", (4096, 4096))`: sizes follow from those alone. Raises `OinfError`, as writing would.
    """
    pairs = {name: value for name, value in tensors.items() if _is_announced(value)}
    others = {name: value for name, value in tensors.items() if name not in pairs}
    tables = {"tensors": others, "sizevars": sizevars or {}, "metadata": metadata or {}}
    writer = OinfWriter(io.BytesIO(), **options)
    _declare(contents_of(tables), writer)
    for name, value in pairs.items():
        dtype, shape = cast("tuple[str, Iterable[int]]", value)
        writer.declare(name, dtype, shape)
    return writer.plan()


def _is_announced(value: object) -> bool:
    """Whether a value is a pair of type and shape; a text is nothing that an array could hold."""
    if not isinstance(value, tuple):
        return False
    parts = cast("tuple[object, ...]", value)
    return len(parts) == 2 and isinstance(parts[0], str) and isinstance(parts[1], Iterable)


def _declare(contents: Contents, writer: OinfWriter) -> dict[str, Array]:
    """Declare all entries; returns the arrays to write."""
    for name, value in contents.sizevars.items():
        writer.sizevar(name, value)
    for key, item in contents.metadata.items():
        writer.metadata(key, item)
    arrays: dict[str, Array] = {}
    for name, tensor in contents.tensors.items():
        if isinstance(tensor, UninitializedTensor):
            writer.declare(name, tensor.dtype, tensor.shape, data=False, quant=tensor.quant)
            continue
        array, kind = _resolved(name, tensor)
        writer.declare(name, kind, array.shape, quant=tensor.quant)
        arrays[name] = array
    return arrays


def _resolved(name: str, tensor: TensorSpec) -> tuple[Array, ValueType]:
    try:
        return tensor.resolved()
    except OinfError as error:
        finding = Finding(code=error.code, message=error.first.message, table="tensors", entry=name)
        raise OinfError(finding) from error
