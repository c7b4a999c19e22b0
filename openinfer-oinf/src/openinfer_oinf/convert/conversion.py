"""Converting from other formats; the format of a file is recognised by its first bytes, else by its name."""

from __future__ import annotations

import fnmatch
import importlib
import os
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from ..arrays import plain_numbers
from ..errors import USAGE, Finding, OinfError, naming_source
from ..layout import MAGIC
from ..metadata import UTF8_SUFFIX, ScalarValue
from ..progress import expect
from ..reader import OinfFile, open_oinf
from ..source import require_regular_file
from ..suggestions import near_or_known
from ..valuetypes import ValueType, element_type
from ..writer import OinfWriter
from . import exporters, readers
from .model import Blocks, Change, ReadOptions, SourceModel, SourceTensor, read_sizes, require_justified, source_error
from .naming import check_renames_used, mapped_names

_HEAD_NBYTES = 64


@dataclass(frozen=True, kw_only=True)
class ConversionOptions:
    """`renames` from source names to others; `dtypes` pairs of name pattern and type, the first match counts;
    `sizevars` and `metadata` are added. The rest is as in `ReadOptions` and `OinfWriter`.
    """

    source_format: str | None = None
    renames: Mapping[str, str] = field(default_factory=dict[str, str])
    dtypes: Sequence[tuple[str, str]] = ()
    sizevars: Mapping[str, int] = field(default_factory=dict[str, int])
    metadata: Mapping[str, object] = field(default_factory=dict[str, object])
    read: ReadOptions = field(default_factory=ReadOptions)
    version: int = 2
    align: int = 8
    checksums: bool = False
    allow_case_collisions: bool = False


def convert_to_oinf(
    source: str | os.PathLike[str], target: str | os.PathLike[str], options: ConversionOptions | None = None
) -> tuple[Change, ...]:
    """Write the weights of a file of another format as a container; returns all that is not the same in it.

    Tensors stream one block at a time; the target is replaced in one step. No code from the source is executed.
    Raises `OinfError`: E_SOURCE for what is broken or cannot be converted, E_EXTRA when an optional package is
    missing, and what `OinfWriter` raises; `OSError`.
    """
    chosen = options or ConversionOptions()
    path = Path(source)
    reader = reader_of_file(path, chosen.source_format)
    with naming_source(source), reader.read(path, chosen.read) as model:
        require_justified(model, chosen.read)
        names = mapped_names((tensor.name for tensor in model.tensors), chosen.renames, "tensors")
        check_renames_used(chosen.renames, [*names, *model.metadata])
        _write(model, names, target, chosen)
        return (*_changes(model, names, chosen),)


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    for found in pkgutil.iter_modules(package.__path__):
        yield importlib.import_module(f"{package.__name__}.{found.name}")


def formats_of(package: ModuleType) -> dict[str, ModuleType]:
    """The readers or exporters there are, by the name of their format."""
    return {module.NAME: module for module in _modules(package)}


def reader_of_file(path: Path, name: str | None = None) -> ModuleType:
    """The reader of a regular file. Raises `OinfError`: E_NOT_A_FILE, E_SOURCE when its format is not known."""
    require_regular_file(path)
    known = formats_of(readers)
    if name is not None:
        if name not in known:
            raise source_error(f"unknown format {name!r}; {near_or_known(name, known)}")
        return known[name]
    with path.open("rb") as file:
        head = file.read(_HEAD_NBYTES)
    if head.startswith(MAGIC):
        message = (
            f"{path.name} is a container already: it can be converted to {_writable()}, "
            "and canonicalize, upgrade and downgrade write it again"
        )
        raise source_error(message)
    for reader in known.values():
        if reader.recognises(head):
            return reader
    for reader in known.values():
        if path.name.lower().endswith(reader.SUFFIXES):
            return reader
    raise source_error(f"{path.name} is of no known format; name one of {', '.join(known)}")


def _writable() -> str:
    return ", ".join(suffix for module in _modules(exporters) for suffix in module.SUFFIXES)


def exporter_of(target: str | os.PathLike[str]) -> ModuleType | None:
    """The exporter for a file name, or None for one that is to be a container.

    Raises `OinfError` (E_USAGE) for the name of a format that can only be read.
    """
    name = os.fspath(target).lower()
    for module in _modules(exporters):
        if name.endswith(module.SUFFIXES):
            return module
    for module in _modules(readers):
        if name.endswith(module.SUFFIXES):
            message = f"files of the format {module.NAME} are not written; .oinf, {_writable()} are"
            raise OinfError(Finding(code=USAGE, message=message), source=os.fspath(target))
    return None


def open_container_to_export(source: str | os.PathLike[str]) -> OinfFile:
    """Open what is to be written in another format. Raises `OinfError`: E_SOURCE where it is not a container."""
    try:
        return open_oinf(source)
    except OinfError as error:
        if error.code != "E_MAGIC":
            raise
        message = f"{os.fspath(source)} is not a container; only those become {_writable()}: convert it to .oinf first"
        raise source_error(message) from error


def _target_kind(tensor: SourceTensor, options: ConversionOptions) -> ValueType:
    for pattern, dtype in options.dtypes:
        if fnmatch.fnmatchcase(tensor.name, pattern):
            return element_type(dtype)
    return tensor.kind


def _write(
    model: SourceModel, names: Mapping[str, str], target: str | os.PathLike[str], options: ConversionOptions
) -> None:
    writer = OinfWriter(
        target,
        version=options.version,
        align=options.align,
        checksums=options.checksums,
        allow_case_collisions=options.allow_case_collisions,
        # Blocks of other formats have scales that are zero or negative.
        allow_any_scale=options.read.exact_blocks,
    )
    expect(read_sizes(model.tensors))
    with writer:
        for name, value in options.sizevars.items():
            writer.sizevar(name, value)
        for name, value in _metadata(model, options).items():
            writer.metadata(name, value)
        for tensor in model.tensors:
            _declare(writer, tensor, names[tensor.name], options)
        for tensor in sorted(model.tensors, key=lambda each: names[each.name]):
            if tensor.stored is not None:
                _write_tensor(writer, names[tensor.name], tensor, tensor.stored(), _target_kind(tensor, options))


def _metadata(model: SourceModel, options: ConversionOptions) -> dict[str, object]:
    names = mapped_names(model.metadata, options.renames, "metadata")
    values = {names[key]: _stated(value) for key, value in model.metadata.items()}
    return values | dict(options.metadata)


def _stated(value: object) -> object:
    """Python floats are 64 bits wide in other formats."""
    return ScalarValue(value, "f64") if type(value) is float else value


def _declare(writer: OinfWriter, tensor: SourceTensor, name: str, options: ConversionOptions) -> None:
    kind = _target_kind(tensor, options)
    if tensor.quant is not None and kind != tensor.kind:
        message = (
            f"a quantised tensor of {tensor.kind.name} keeps its type; leave it out of the pattern for {kind.name}"
        )
        raise OinfError(Finding(code="E_QUANT", message=message, table="tensors", entry=name))
    writer.declare(name, kind, tensor.shape, data=tensor.stored is not None, quant=tensor.quant)


def _write_tensor(writer: OinfWriter, name: str, tensor: SourceTensor, blocks: Blocks, kind: ValueType) -> None:
    if kind == tensor.kind:
        writer.write_raw(name, blocks)
    else:
        writer.write(name, (plain_numbers(block, tensor.kind) for block in blocks))


def _changes(model: SourceModel, names: Mapping[str, str], options: ConversionOptions) -> Iterator[Change]:
    yield from model.changes
    for key, name in mapped_names(model.metadata, options.renames, "metadata").items():
        # Texts go under keys of their own, see `SourceModel`.
        original = key.removesuffix(UTF8_SUFFIX) if isinstance(model.metadata[key], str) else key
        if original != name:
            yield Change("renamed", original, f"metadata {name}")
    for tensor in model.tensors:
        yield from tensor.changes
        if names[tensor.name] != tensor.name:
            yield Change("renamed", tensor.name, names[tensor.name])
        kind = _target_kind(tensor, options)
        if kind != tensor.kind:
            yield Change("cast", tensor.name, f"{tensor.kind.name} to {kind.name}")
