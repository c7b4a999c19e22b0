"""Models in several files: `NAME.oinf.index.json` names the file of every tensor, and is opened as one container.

The index is JSON with an object `weight_map` from tensor names to plain names of files in its own directory. No name
may be in two shards; checksums are every shard's own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Unpack

from .atomicfile import AtomicFile, naming
from .checksums import CHECKSUM_KEY, Checksums
from .contents import TensorSpec, UninitializedTensor
from .errors import Finding, OinfError
from .jsonfile import shard_paths
from .layout import INDEX_SUFFIX
from .metadata import TypedValue
from .reader import MetadataView, OinfFile, OpenOptions, open_container
from .save import WriteOptions, save_file
from .staging import remove_abandoned, staging_directory
from .tables import Index
from .tensor import StoredTensor

_CODE = "E_SHARDS"


def _rejected(message: str, entry: str | None = None) -> OinfError:
    return OinfError(Finding(code=_CODE, message=message, entry=entry))


class ShardMetadata(MetadataView):
    """The metadata of all shards; checksums, which every shard has of its own, are left out."""

    def __init__(self, homes: Mapping[str, MetadataView]) -> None:
        self._entries = {name: view.entry(name) for name, view in homes.items()}
        self._homes = homes

    def typed(self, name: str) -> TypedValue:
        home = self._homes.get(name)
        return super().typed(name) if home is None else home.typed(name)

    def payload(self, name: str) -> bytes:
        return self._homes[name].payload(name)


class ShardedOinf(OinfFile):
    """Several containers as one: a mapping of all tensors, in the order of the shards.

    `version` is the highest of the shards, `file_size` their sum in bytes; each of `parts` has its own `index` and
    `checksums`.
    """

    def __init__(self, shards: Sequence[OinfFile]) -> None:
        self._shards = tuple(shards)
        self._tensors = {}
        self._entries = {entry.name: entry for shard in shards for entry in shard.index.tensors}
        self._homes = _homes(("tensors", name, shard) for shard in shards for name in shard)
        sizes = _homes(("sizevars", name, shard) for shard in shards for name in shard.sizevars)
        metadata = _homes(
            ("metadata", name, shard) for shard in shards for name in shard.metadata if name != CHECKSUM_KEY
        )
        self.version = max((shard.version for shard in shards), default=2)
        self.file_size = sum(shard.file_size for shard in shards)
        self.sizevars = MappingProxyType({name: shard.sizevars[name] for name, shard in sizes.items()})
        self.metadata = ShardMetadata({name: shard.metadata for name, shard in metadata.items()})
        self.warnings = tuple(finding for shard in shards for finding in shard.warnings)

    @property
    def index(self) -> Index:
        raise _rejected("a model in shards has no single index; open one of its files")

    @property
    def checksums(self) -> Checksums:
        raise _rejected("checksums are every shard's own; each of `parts` has them")

    @property
    def parts(self) -> tuple[OinfFile, ...]:
        return self._shards

    def tensor(self, name: str) -> StoredTensor:
        home = self._homes.get(name)
        return super().tensor(name) if home is None else home.tensor(name)

    def close(self) -> None:
        for shard in self._shards:
            shard.close()


def _homes(names: Iterator[tuple[str, str, OinfFile]]) -> dict[str, OinfFile]:
    """The shard of each name. Raises `OinfError` (E_DUPLICATE) for a name in two of them."""
    homes: dict[str, OinfFile] = {}
    for table, name, shard in names:
        if homes.setdefault(name, shard) is not shard:
            raise OinfError(Finding(code="E_DUPLICATE", message="the name is in two shards", table=table, entry=name))
    return homes


def open_shards(path: Path, options: OpenOptions) -> ShardedOinf:
    """Open a shard index and all its files. Raises `OinfError` (E_SHARDS) where the two do not agree, and `OSError`."""
    places = shard_paths(path, _CODE)
    shards: dict[Path, OinfFile] = {}
    try:
        for place in dict.fromkeys(places.values()):
            if place.is_symlink():
                raise _rejected(f"{place.name} is a link, which is not followed")
            shards[place] = open_container(place, options)
        merged = ShardedOinf(list(shards.values()))
        _check_homes(places, shards)
    except BaseException:
        for shard in shards.values():
            shard.close()
        raise
    return merged


def _check_homes(places: Mapping[str, Path], shards: Mapping[Path, OinfFile]) -> None:
    for name, place in places.items():
        if name not in shards[place]:
            raise _rejected(f"{place.name} has no tensor that the index places there", ascii(name)[1:-1])
    for place, shard in shards.items():
        for name in shard:
            if places.get(name) != place:
                raise _rejected(f"the index does not place a tensor of {place.name} there", name)


def save_shards(
    tensors: Mapping[str, TensorSpec | UninitializedTensor],
    path: str | os.PathLike[str],
    *,
    shard_nbytes: int,
    sizevars: Mapping[str, int] | None = None,
    metadata: Mapping[str, object] | None = None,
    **options: Unpack[WriteOptions],
) -> tuple[Path, ...]:
    """Write tensors in files of at most `shard_nbytes` bytes of values (a larger tensor has its own), and an index.

    `path` ends in `.oinf.index.json`; the files are `NAME-00001-of-N.oinf` in the same folder. Size variables and
    metadata go to the first. Returns the paths of the shards. Raises `OinfError` and `OSError`. All shards are complete
    before they take their places, so that a failure leaves what was there as it was, and the index comes last.
    """
    index = Path(path)
    if not index.name.endswith(INDEX_SUFFIX):
        raise _rejected(f"the name of a shard index ends in {INDEX_SUFFIX}")
    if not tensors:
        # An index names files by the tensors in them: one without tensors would be lost, and all tables with it.
        raise _rejected("a model without tensors has nothing to divide; write it with save_file")
    groups = _groups(tensors, shard_nbytes)
    stem = index.name.removesuffix(INDEX_SUFFIX)
    names = [f"{stem}-{at + 1:05}-of-{len(groups):05}.oinf" for at in range(len(groups))]
    weight_map = {tensor: name for name, group in zip(names, groups, strict=True) for tensor in group}
    # Every shard is complete before the first takes its place.
    remove_abandoned(index.parent)
    with naming(index), staging_directory(index.parent, stem) as folder:
        for name, group in zip(names, groups, strict=True):
            part = {tensor: tensors[tensor] for tensor in group}
            save_file(part, Path(folder, name), sizevars=sizevars, metadata=metadata, **options)
            sizevars = metadata = None
        for name in names:
            Path(folder, name).replace(index.with_name(name))
    with AtomicFile.writing(index) as file:
        file.write_whole((json.dumps({"weight_map": weight_map}, indent=1) + "\n").encode())
    return tuple(index.with_name(name) for name in names)


def _groups(tensors: Mapping[str, TensorSpec | UninitializedTensor], shard_nbytes: int) -> list[list[str]]:
    """Names in order, as many to a group as fit."""
    groups: list[list[str]] = [[]]
    used = 0
    for name in sorted(tensors):
        tensor = tensors[name]
        nbytes = 0
        if isinstance(tensor, TensorSpec):
            array, kind = tensor.resolved()
            nbytes = kind.stored_nbytes(array.size)
        if groups[-1] and used + nbytes > shard_nbytes:
            groups.append([])
            used = 0
        groups[-1].append(name)
        used += nbytes
    return groups
