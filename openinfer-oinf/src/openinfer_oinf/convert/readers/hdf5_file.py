"""Reads the datasets of HDF5 files (extra `h5py`). Links that lead to other places are refused, not followed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ...arrays import Array
from ...encoding import as_array, default_type, encode
from ...errors import OinfError
from ..model import (
    BLOCK_NBYTES,
    LARGEST_GROWTH,
    Blocks,
    Change,
    ReadOptions,
    SourceModel,
    SourceTensor,
    optional_module,
    source_error,
)

NAME = "hdf5"
SUFFIXES = (".h5", ".hdf5", ".keras_weights")

# Chunks are unpacked at once: a larger one has to hold at least a 32nd part of its size.
_LARGE_CHUNK_NBYTES = 1 << 26
_MAGIC = b"\x89HDF\r\n\x1a\n"
# What h5py raises for files that are not sound.
_BROKEN = (OSError, RuntimeError, ValueError, TypeError, KeyError, OverflowError)


def recognises(head: bytes) -> bool:
    """Whether a file begins as this format does."""
    return head.startswith(_MAGIC)


def read(path: Path, options: ReadOptions) -> SourceModel:
    """The datasets of all groups, by path. Raises `OinfError` (E_SOURCE, E_EXTRA) and `OSError`."""
    h5py = optional_module("h5py", "reading HDF5 files")
    path.open("rb").close()  # an OSError of the system says more than one of the library
    model = SourceModel(nbytes=path.stat().st_size)
    try:
        file = _guarded(lambda: model.resources.enter_context(h5py.File(path, "r")), None)
        for name, item in _datasets(h5py, file, options, model):
            _add(model, options, name, item)
    except BaseException:
        model.resources.close()
        raise
    return model


def _guarded(call: Callable[[], Any], name: str | None) -> Any:
    try:
        return call()
    except _BROKEN as error:
        raise source_error(f"not a sound HDF5 file: {error}", name) from error


def _datasets(h5py: Any, file: Any, options: ReadOptions, model: SourceModel) -> Iterator[tuple[str, Any]]:
    """Datasets with their paths; groups are walked once each, however often they are linked."""
    pending: list[tuple[str, Any]] = [("", file)]
    seen = {_address(h5py, file)}
    while pending:
        prefix, group = pending.pop()
        _add_attributes(model, prefix, group)
        for key in _guarded(lambda group=group: sorted(group), prefix):
            name = f"{prefix}/{_text(key)}" if prefix else _text(key)
            link = _guarded(lambda group=group, key=key: group.get(key, getlink=True), name)
            if not isinstance(link, h5py.HardLink):
                model.refuse(options, name, "a soft or external link, which is not followed")
                continue
            item = _guarded(lambda group=group, key=key: group[key], name)
            if isinstance(item, h5py.Dataset):
                _add_attributes(model, name, item)
                yield name, item
            elif isinstance(item, h5py.Group) and _address(h5py, item) not in seen:
                seen.add(_address(h5py, item))
                pending.append((name, item))
            else:
                model.refuse(options, name, "neither a dataset nor a group that is linked once")


def _text(key: str | bytes) -> str:
    """A name as text; the library gives bytes where it is not UTF-8."""
    return key if isinstance(key, str) else key.decode("utf-8", "backslashreplace")


def _address(h5py: Any, item: Any) -> int:
    return int(_guarded(lambda: h5py.h5o.get_info(item.id).addr, None))


def _add_attributes(model: SourceModel, name: str, item: Any) -> None:
    """Attributes that are text, numbers or arrays of numbers become metadata, the others are dropped."""
    for key in _guarded(lambda: sorted(item.attrs), name):
        full = f"{name}/{_text(key)}" if name else _text(key)
        try:
            stored = item.attrs.get_id(key)
            # Many elements may share one text: what is neither numbers nor one text is not read at all.
            value: Any = item.attrs[key] if _is_numbers(stored.dtype) or stored.shape == () else None
        except _BROKEN as error:
            model.changes.append(Change("dropped", full, f"attribute that cannot be read: {error}"))
            continue
        if isinstance(value, str):
            model.metadata[f"{full}.utf8"] = value
        elif _is_numbers(np.asarray(value).dtype):
            model.metadata[full] = np.asarray(value)
        else:
            model.changes.append(Change("dropped", full, "an attribute that is neither numbers nor one text"))


def _is_numbers(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "biuf" and dtype.itemsize <= 8


def _add(model: SourceModel, options: ReadOptions, name: str, item: Any) -> None:
    dtype: np.dtype[Any] = _guarded(lambda: item.dtype, name)
    shape: tuple[int, ...] | None = _guarded(lambda: item.shape, name)
    if _guarded(lambda: item.is_virtual or item.external, name):
        model.refuse(options, name, "its values lie in another file")
        return
    if shape is None:
        model.refuse(options, name, "a dataset without a dataspace")
        return
    try:
        kind = default_type(as_array(np.empty(0, dtype)))
    except OinfError as error:
        model.refuse(options, name, error.first.message)
        return

    stored_nbytes: int = _guarded(lambda: item.id.get_storage_size(), name)
    nbytes = math.prod(shape) * dtype.itemsize
    if stored_nbytes * LARGEST_GROWTH < nbytes and nbytes > options.unpacked_nbytes:
        model.refuse(options, name, f"{stored_nbytes} bytes are stored of {nbytes}, the rest was never written")
        return
    chunks: tuple[int, ...] | None = _guarded(lambda: item.chunks, name)
    chunk_nbytes = math.prod(chunks or ()) * dtype.itemsize
    if chunk_nbytes > max(_LARGE_CHUNK_NBYTES, stored_nbytes * LARGEST_GROWTH):
        model.refuse(options, name, f"chunks of {chunk_nbytes} bytes, of which {stored_nbytes} are stored")
        return
    changes: list[Change] = []
    if nbytes and not stored_nbytes:
        changes.append(Change("filled", name, "never written: its fill value"))
    if dtype.byteorder == ">":
        changes.append(Change("copied", name, "bytes swapped from big-endian"))

    def stored() -> Blocks:
        for part in _parts(shape, dtype.itemsize):
            array: Array = _guarded(lambda part=part: np.asarray(item[part]), name)
            yield encode(np.ascontiguousarray(array).reshape(-1), kind)

    model.tensors.append(SourceTensor(name=name, kind=kind, shape=shape, stored=stored, changes=tuple(changes)))


def _parts(shape: tuple[int, ...], width: int) -> Iterator[tuple[int | slice, ...]]:
    """Selections of a bounded size that cover a shape in C order, whatever its first dimension is."""
    if math.prod(shape) * width <= BLOCK_NBYTES or not shape:
        yield ()
        return
    per_row = math.prod(shape[1:]) * width
    if per_row > BLOCK_NBYTES:
        for row in range(shape[0]):
            yield from ((row, *rest) for rest in _parts(shape[1:], width))
        return
    rows = BLOCK_NBYTES // per_row
    yield from ((slice(first, min(first + rows, shape[0])),) for first in range(0, shape[0], rows))
