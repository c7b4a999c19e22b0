"""Reads safetensors files and their shard indexes; a header of JSON is all there is, so that no library is needed.

Checked are: the length of the header (100 MB at most), repeated keys, types, sizes, and that the payloads fill the file
without gaps and overlaps.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import cast

import numpy as np

from ...arrays import as_bytes
from ...jsonfile import INDEX_NBYTES, json_object, shard_paths
from ...source import ByteSource, open_source
from ...valuetypes import ValueType, value_type
from ..eightbit import f16_of_e4m3fn
from ..model import BLOCK_NBYTES, Blocks, Change, ReadOptions, SourceModel, SourceTensor, source_error

NAME = "safetensors"
SUFFIXES = (".safetensors", ".safetensors.index.json")

_KINDS = {
    "BOOL": "bool",
    "F8_E5M2": "f8",
    "BF16": "bf16",
    **{f"I{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
    **{f"F{bits}": f"f{bits}" for bits in (16, 32, 64)},
}
_ROOM = 8


def recognises(head: bytes) -> bool:
    """Whether a file begins as this format does."""
    return (
        len(head) > _ROOM and head[_ROOM : _ROOM + 1] == b"{" and int.from_bytes(head[:_ROOM], "little") <= INDEX_NBYTES
    )


def read(path: Path, options: ReadOptions) -> SourceModel:
    """The tensors of a file, or of all shards of an index. Raises `OinfError` (E_SOURCE) and `OSError`."""
    model = SourceModel(nbytes=0)
    try:
        if path.name.endswith(".json"):
            _read_shards(path, options, model)
        else:
            _read_file(path, options, model)
    except BaseException:
        model.resources.close()
        raise
    return model


def _read_shards(path: Path, options: ReadOptions, model: SourceModel) -> None:
    homes = shard_paths(path, "E_SOURCE")
    found: dict[str, Path] = {}
    for shard in dict.fromkeys(homes.values()):
        before = len(model.tensors)
        _read_file(shard, options, model)
        for tensor in model.tensors[before:]:
            if homes.get(tensor.name) != shard or tensor.name in found:
                raise source_error(f"the index does not place this tensor of {shard.name} there", tensor.name)
            found[tensor.name] = shard
    missing = sorted({*homes} - {*found} - {change.name for change in model.changes})
    if missing:
        raise source_error(f"{homes[missing[0]].name} does not have this tensor of the index", missing[0])


def _read_file(path: Path, options: ReadOptions, model: SourceModel) -> None:
    source = open_source(path, "auto")
    model.resources.callback(source.close)
    model.nbytes += source.size
    header, start = _header(source)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict):
        raise source_error("__metadata__ is not an object of texts")
    for key, value in cast("dict[str, object]", metadata).items():
        if not isinstance(value, str):
            raise source_error("__metadata__ is not an object of texts", key)
        model.metadata[f"{key}.utf8"] = value
    places: list[tuple[int, int]] = []
    for name, entry in header.items():
        dtype, shape, first, last = _entry(name, entry)
        places.append((first, last))
        _add(model, options, _Stored(name, dtype, shape, start + first, last - first, source))
    _check_places(places, source.size - start)


def _header(source: ByteSource) -> tuple[dict[str, object], int]:
    if source.size < _ROOM:
        raise source_error(f"{source.size} bytes are too few for a safetensors file")
    nbytes = int.from_bytes(source.view(0, _ROOM), "little")
    if nbytes > min(INDEX_NBYTES, source.size - _ROOM):
        raise source_error(f"a header of {nbytes} bytes is longer than the file, or than {INDEX_NBYTES} bytes")
    return json_object(bytes(source.view(_ROOM, nbytes)), "the header", "E_SOURCE"), _ROOM + nbytes


def _entry(name: str, entry: object) -> tuple[str, tuple[int, ...], int, int]:
    fields = cast("dict[str, object]", entry) if isinstance(entry, dict) else {}
    dtype, shape, offsets = fields.get("dtype"), fields.get("shape"), fields.get("data_offsets")
    if not isinstance(dtype, str) or not _is_counts(shape) or not _is_counts(offsets) or fields.keys() - _FIELDS:
        raise source_error("an entry has dtype, shape and data_offsets, and nothing else", name)
    first, last, *more = cast("list[int]", offsets) if len(cast("list[int]", offsets)) > 1 else [1, 0]
    if more or not first <= last:
        raise source_error("data_offsets are not a range", name)
    return dtype, tuple(cast("list[int]", shape)), first, last


_FIELDS = {"dtype", "shape", "data_offsets"}


def _is_counts(value: object) -> bool:
    if not isinstance(value, list):
        return False
    items = cast("list[object]", value)
    return len(items) <= 64 and all(type(item) is int and 0 <= item < 1 << 63 for item in items)


def _check_places(places: Iterable[tuple[int, int]], size: int) -> None:
    edges = [(0, 0), *sorted(places), (size, size)]
    for (_, end), (start, _) in pairwise(edges):
        if start != end:
            raise source_error(f"the payloads leave a gap or overlap at byte {min(start, end)} of the data")


class _Stored:
    """A payload in its place."""

    def __init__(
        self, name: str, dtype: str, shape: tuple[int, ...], start: int, nbytes: int, source: ByteSource
    ) -> None:
        self.name, self.dtype, self.shape = name, dtype, shape
        self.start, self.nbytes, self.source = start, nbytes, source

    def blocks(self) -> Blocks:
        if self.start + self.nbytes > self.source.size:
            raise source_error("the payload passes the end of the file", self.name)
        for at in range(0, self.nbytes, BLOCK_NBYTES):
            yield as_bytes(self.source.view(self.start + at, min(BLOCK_NBYTES, self.nbytes - at)))

    def halves(self) -> Blocks:
        for block in self.blocks():
            yield f16_of_e4m3fn()[block].astype("<u2").view(np.uint8)


def _add(model: SourceModel, options: ReadOptions, stored: _Stored) -> None:
    name, shape = stored.name, stored.shape
    if stored.dtype in _KINDS:
        kind = value_type(_KINDS[stored.dtype])
        _check_size(stored, kind)
        model.tensors.append(SourceTensor(name=name, kind=kind, shape=shape, stored=stored.blocks))
    elif stored.dtype == "F8_E4M3":
        _check_size(stored, value_type("u8"))
        change = Change("cast", name, "F8_E4M3 to f16, which holds its values exactly")
        kind = value_type("f16")
        model.tensors.append(SourceTensor(name=name, kind=kind, shape=shape, stored=stored.halves, changes=(change,)))
    elif options.raw:
        change = Change("cast", name, f"{stored.dtype}{list(shape)} to its {stored.nbytes} bytes as u8")
        kind = value_type("u8")
        flat = (stored.nbytes,)
        model.tensors.append(SourceTensor(name=name, kind=kind, shape=flat, stored=stored.blocks, changes=(change,)))
    else:
        model.refuse(options, name, f"{stored.dtype:.40} has no value type; raw keeps its bytes as u8")


def _check_size(stored: _Stored, kind: ValueType) -> None:
    expected = kind.stored_nbytes(math.prod(stored.shape))
    if stored.nbytes != expected:
        message = f"{stored.nbytes} bytes where {stored.dtype}{list(stored.shape)} takes {expected}"
        raise source_error(message, stored.name)
