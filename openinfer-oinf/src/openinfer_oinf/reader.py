"""Opening a container: the index is read and checked, payloads stay untouched until they are requested."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from .arrays import Array
from .checksums import Checksums
from .errors import AbsentNameError, CheckLevel, Finding, Findings, UninitializedError, naming_source
from .header import read_header
from .layout import INDEX_SUFFIX
from .limits import Limits
from .metadata import MetadataValue, TypedValue, decode_metadata, text_of
from .payloads import Gaps, check_metadata, check_placement, check_quant_headers, metadata_problems
from .progress import advance, expect
from .sizes import size_text
from .source import ByteSource, MapMode, Openable, open_source
from .suggestions import did_you_mean
from .tables import Index, MetadataEntry, TensorEntry, read_tables
from .tensor import StoredTensor, VerifyMode

_T = TypeVar("_T")


class MetadataView(Mapping[str, MetadataValue]):
    """The metadata of a file by key, in file order; arrays are read-only views."""

    def __init__(
        self, entries: Mapping[str, MetadataEntry], source: ByteSource, limits: Limits, check: CheckLevel
    ) -> None:
        self._entries = entries
        self._source = source
        self._limits = limits
        self._check: CheckLevel = check

    def typed(self, name: str) -> TypedValue:
        """The value with the name of its type. Raises `AbsentNameError`, `OinfError` (E_VALUE)."""
        entry = self._entries.get(name)
        if entry is None:
            raise _absent("metadata key", name, self._entries)
        if entry.nbytes > self._limits.eager_metadata_bytes:
            self._check_late(entry)
        return decode_metadata(entry.tag, self._source.view(entry.offset, entry.nbytes))

    def _check_late(self, entry: MetadataEntry) -> None:
        findings = Findings(self._check)
        for code, message in metadata_problems(entry, self._source, self._limits, values=True):
            findings.add(Finding(code=code, message=message, offset=entry.offset, table="metadata", entry=entry.name))
        findings.raise_errors()

    def payload(self, name: str) -> bytes:
        """The stored bytes of a value."""
        entry = self._entries[name]
        return bytes(self._source.view(entry.offset, entry.nbytes))

    def entry(self, name: str) -> MetadataEntry:
        """The row of the metadata table."""
        return self._entries[name]

    def __getitem__(self, name: str) -> MetadataValue:
        return text_of(name, self.typed(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries


def _absent(kind: str, name: str, entries: Mapping[str, object]) -> AbsentNameError:
    hint = did_you_mean(name, entries)
    message = f"no {kind} {name!r}" + (f"; {hint}" if hint else "")
    return AbsentNameError(Finding(code="E_ABSENT", message=message))


class OinfFile(Mapping[str, Array]):
    """An open container: a mapping from tensor names, in file order, to read-only arrays.

    Arrays stay valid after `close`: the mapping of the file lives as long as the last of them. Safe for use by
    several threads at once.
    """

    def __init__(
        self, index: Index, gaps: Gaps, source: ByteSource, *, limits: Limits, check: CheckLevel, verify: VerifyMode
    ) -> None:
        self._index = index
        self._gaps = gaps
        self._source = source
        self._check: CheckLevel = check
        self._verify: VerifyMode = verify
        self._entries: Mapping[str, TensorEntry] = {entry.name: entry for entry in index.tensors}
        self._tensors: dict[str, StoredTensor] = {}
        self.version = index.header.version
        self.file_size = index.header.file_size
        self.sizevars: Mapping[str, int] = MappingProxyType({each.name: each.value for each in index.sizevars})
        self.metadata = MetadataView({each.name: each for each in index.metadata}, source, limits, check)
        self._checksums = Checksums(self.metadata, self._entries)
        self.warnings: tuple[Finding, ...] = ()

    # Two open files are the same only if they are one object: comparing arrays would be ambiguous.
    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    @property
    def index(self) -> Index:
        """Header and table rows as they are in the file."""
        return self._index

    @property
    def checksums(self) -> Checksums:
        """The SHA-256 of every tensor, where the file has them."""
        return self._checksums

    @property
    def parts(self) -> tuple[OinfFile, ...]:
        """The files that this consists of: itself, or the shards of an index."""
        return (self,)

    def tensor(self, name: str) -> StoredTensor:
        """The description of a tensor. Raises `AbsentNameError` when the file has none of that name."""
        found = self._tensors.get(name)
        if found is not None:
            return found
        entry = self._entries.get(name)
        if entry is None:
            raise _absent("tensor", name, self._entries)
        # Threads that ask at once get the same object.
        tensor = StoredTensor(
            entry, self._source, self._check, self._verify, gaps=self._gaps.get(name, ()), checksums=self._checksums
        )
        return self._tensors.setdefault(name, tensor)

    def tensors(self) -> Iterator[StoredTensor]:
        """Every tensor, in file order."""
        return (self.tensor(name) for name in self._entries)

    def __getitem__(self, name: str) -> Array:
        return self.tensor(name).numpy()

    @overload
    def get(self, key: str, /) -> Array | None: ...
    @overload
    def get(self, key: str, /, default: Array | _T) -> Array | _T: ...
    def get(self, key: str, /, default: object = None) -> object:
        """The values of a tensor, or `default` when it is absent or has no data."""
        if key not in self._entries:
            return default
        found = self.tensor(key)
        return found.numpy() if found.has_data else default

    def raw(self, name: str) -> NDArray[np.uint8]:
        """The stored bytes of a tensor as a read-only view."""
        return self.tensor(name).raw()

    def load(self, name: str) -> Array:
        """A private copy of a tensor, which keeps no hold on the file."""
        return self.tensor(name).load()

    def with_prefix(self, prefix: str) -> Mapping[str, Array]:
        """The tensors whose names begin with `prefix`, as a mapping that reads them when asked."""
        return _Family(self, [name for name in self._entries if name.startswith(prefix)])

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __repr__(self) -> str:
        return (
            f"<oinf version {self.version}: {len(self.sizevars)} sizevars, {len(self.metadata)} metadata, "
            f"{len(self)} tensors, {size_text(self.file_size)}>"
        )

    def _repr_html_(self) -> str:
        """What notebooks show."""
        from .notebook import file_html

        return file_html(self)

    def close(self) -> None:
        """Let go of the file; what was read before stays usable, later reads raise `OinfError` (E_CLOSED)."""
        self._source.close()

    def __enter__(self) -> OinfFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Family(Mapping[str, Array]):
    def __init__(self, file: OinfFile, names: list[str]) -> None:
        self._file = file
        self._names = dict.fromkeys(names)

    def __getitem__(self, name: str) -> Array:
        if name not in self._names:
            raise KeyError(name)
        return self._file[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def open_oinf(
    source: Openable,
    *,
    mmap: MapMode = "auto",
    check: CheckLevel = "strict",
    limits: Limits | None = None,
    verify: VerifyMode = "lazy",
) -> OinfFile:
    """Open a container for reading: a path, bytes, a seekable binary file object, or the path of a shard index.

    `mmap`: True maps the file, False reads parts into memory, "auto" maps where the system can. `check`:
    "strict" refuses whatever a proper writer would not write, "compat" only what endangers memory safety (the rest
    is in `.warnings`). `verify`: when values (of bool, packed and quantised tensors), the padding after payloads and
    checksums (where a file has them) are checked: on first use of a tensor, all but checksums at once, or not at all.
    Raises `OinfError` with every finding, `OSError` when the path cannot be read.
    """
    if check not in ("strict", "compat") or verify not in ("lazy", "eager", "off"):
        raise ValueError(f"check={check!r}, verify={verify!r}: expected `strict` or `compat`; `lazy`, `eager` or `off`")
    options = OpenOptions(mmap, check, limits or Limits(), verify)
    if isinstance(source, str | os.PathLike) and os.fspath(source).endswith(INDEX_SUFFIX):
        # Opened inside, because it builds on this module.
        from .shards import open_shards

        with naming_source(source):
            return open_shards(Path(source), options)
    return open_container(source, options)


class OpenOptions(NamedTuple):
    """The options of `open_oinf`."""

    mmap: MapMode
    check: CheckLevel
    limits: Limits
    verify: VerifyMode


def open_container(source: Openable, options: OpenOptions) -> OinfFile:
    """Open one file."""
    with naming_source(source):
        return _open(source, options)


def _open(source: Openable, options: OpenOptions) -> OinfFile:
    mmap, check, limits, verify = options
    data = open_source(source, mmap)
    try:
        findings = Findings(check, limit=limits.findings)
        index, gaps = read_index(data, limits, findings)
        file = OinfFile(index, gaps, data, limits=limits, check=check, verify=verify)
        if verify == "eager":
            check_all_values(file, findings)
            findings.raise_errors()
        file.warnings = findings.warnings()
    except BaseException:
        data.close()
        raise
    return file


def read_index(data: ByteSource, limits: Limits, findings: Findings) -> tuple[Index, Gaps]:
    """Header, tables and gaps between payloads, after all checks whose cost does not grow with the payloads.

    Raises `OinfError` after each stage (header, tables, payload places and heads) that found errors, since the
    next stage relies on it.
    """
    header = read_header(data, limits, findings)
    index = read_tables(bytes(data.view(0, header.offset_data)), header, limits, findings)
    findings.raise_errors()
    check_metadata(index, data, limits, findings)
    check_quant_headers(index, data, findings)
    gaps = check_placement(index, data, findings)
    findings.raise_errors()
    return index, gaps


def check_all_values(file: OinfFile, findings: Findings) -> None:
    """Read every payload and record what is wrong with its values."""
    expect(file.file_size)
    for tensor in file.tensors():
        problem = tensor.value_problem()
        if problem is not None:
            findings.add(tensor.finding("E_VALUE", problem, tensor.offset))
        findings.extend(tensor.gap_findings())
        findings.extend(tensor.quant_findings())
        advance(tensor.nbytes)


def load_file(source: Openable, *, check: CheckLevel = "strict", limits: Limits | None = None) -> dict[str, Array]:
    """All tensors of a file as private, writable arrays, by name; tensors without data are left out."""
    with open_oinf(source, check=check, limits=limits) as file:
        return {tensor.name: tensor.load() for tensor in file.tensors() if tensor.has_data}


__all__ = ["MetadataView", "OinfFile", "UninitializedError", "check_all_values", "load_file", "open_oinf", "read_index"]
