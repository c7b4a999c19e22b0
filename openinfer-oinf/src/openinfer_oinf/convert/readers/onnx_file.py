"""Reads the initialisers of ONNX models (extra `onnx`). Data in files of their own lie in the folder of the model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from ...arrays import as_bytes
from ...encoding import encode
from ...source import ByteSource, open_source, require_regular_file
from ...valuetypes import ValueType, value_type
from ..eightbit import f16_of_e4m3fn
from ..model import (
    BLOCK_NBYTES,
    Blocks,
    Change,
    ReadOptions,
    SourceModel,
    SourceTensor,
    optional_module,
    source_error,
)

NAME = "onnx"
SUFFIXES = (".onnx",)

_KINDS = {
    "FLOAT": "f32",
    "DOUBLE": "f64",
    "FLOAT16": "f16",
    "BFLOAT16": "bf16",
    "FLOAT8E5M2": "f8",
    "BOOL": "bool",
    **{f"INT{bits}": f"i{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"UINT{bits}": f"u{bits}" for bits in (2, 4, 8, 16, 32, 64)},
}
_E4M3 = "FLOAT8E4M3FN"
_MOST_NBYTES = (1 << 31) - 1


def recognises(head: bytes) -> bool:
    """Whether a file begins as this format does: ONNX has no mark of its own, so the name decides."""
    del head
    return False


def read(path: Path, options: ReadOptions) -> SourceModel:
    """The initialisers of the graph. Raises `OinfError` (E_SOURCE, E_EXTRA) and `OSError`."""
    onnx = optional_module("onnx", "reading ONNX models")
    message = optional_module("google.protobuf.message", "reading ONNX models")
    model = SourceModel(nbytes=path.stat().st_size)
    if model.nbytes > _MOST_NBYTES:
        raise source_error(f"{model.nbytes} bytes are more than a message of protobuf may have")
    try:
        proto = onnx.load_model_from_string(path.read_bytes())
    except message.DecodeError as error:
        raise source_error(f"not an ONNX model: {error}") from error
    if not proto.HasField("graph"):
        raise source_error("not an ONNX model: it has no graph")
    try:
        _read_graph(onnx, proto, path.parent, options, model)
    except BaseException:
        model.resources.close()
        raise
    return model


def _read_graph(onnx: Any, proto: Any, folder: Path, options: ReadOptions, model: SourceModel) -> None:
    for entry in proto.metadata_props:
        model.metadata[f"{entry.key}.utf8"] = entry.value
    files: dict[Path, ByteSource] = {}
    for tensor in proto.graph.initializer:
        _add(onnx, tensor, folder, files, options, model)
    for tensor in proto.graph.sparse_initializer:
        model.refuse(options, str(tensor.values.name), "a sparse tensor")


def _add(
    onnx: Any, tensor: Any, folder: Path, files: dict[Path, ByteSource], options: ReadOptions, model: SourceModel
) -> None:
    name, shape = str(tensor.name), tuple(int(extent) for extent in tensor.dims)
    names = onnx.TensorProto.DataType
    kind_name = str(names.Name(tensor.data_type)) if tensor.data_type in names.values() else str(tensor.data_type)
    if not name:
        raise source_error("an initialiser has no name")
    if any(extent < 0 for extent in shape):
        raise source_error(f"the shape {list(shape)} has a negative extent", name)
    if kind_name not in _KINDS and kind_name != _E4M3:
        model.refuse(options, name, f"{kind_name:.40} has no value type")
        return
    kind = value_type("f16" if kind_name == _E4M3 else _KINDS[kind_name])
    stored = value_type("u8") if kind_name == _E4M3 else kind
    nbytes = stored.stored_nbytes(math.prod(shape))
    source = _external(onnx, tensor, folder, files, model)
    if source is not None:
        file, offset, length = source
        if length not in (None, nbytes) or offset + nbytes > file.size:
            raise source_error(
                f"{length or file.size - offset} bytes where {kind_name}{list(shape)} takes {nbytes}", name
            )
        model.nbytes += nbytes
    elif tensor.HasField("raw_data") and len(tensor.raw_data) != nbytes:
        raise source_error(f"{len(tensor.raw_data)} bytes where {kind_name}{list(shape)} takes {nbytes}", name)

    def blocks() -> Blocks:
        if source is None:
            yield _inline(onnx, tensor, stored)
            return
        for at in range(0, nbytes, BLOCK_NBYTES):
            yield as_bytes(source[0].view(source[1] + at, min(BLOCK_NBYTES, nbytes - at)))

    def halves() -> Blocks:
        for block in blocks():
            yield f16_of_e4m3fn()[block].astype("<u2").view(np.uint8)

    is_cast = kind_name == _E4M3
    changes = (Change("cast", name, f"{_E4M3} to f16, which holds its values exactly"),) if is_cast else ()
    model.tensors.append(
        SourceTensor(name=name, kind=kind, shape=shape, stored=halves if is_cast else blocks, changes=changes)
    )


def _inline(onnx: Any, tensor: Any, kind: ValueType) -> Any:
    """The stored bytes of a tensor whose numbers are in the message; raw data are stored as containers store them."""
    if tensor.HasField("raw_data"):
        return as_bytes(tensor.raw_data)
    try:
        array = np.asarray(onnx.numpy_helper.to_array(tensor))
    except (ValueError, TypeError) as error:
        raise source_error(f"its numbers do not fit its shape: {error}", str(tensor.name)) from error
    if kind.name == "u8" and array.dtype.itemsize == 1:
        array = array.view(np.uint8)
    return encode(np.ascontiguousarray(array).reshape(-1), kind)


def _external(
    onnx: Any, tensor: Any, folder: Path, files: dict[Path, ByteSource], model: SourceModel
) -> tuple[ByteSource, int, int | None] | None:
    """The file of a tensor whose data lie outside of the model, with the place and the number of bytes if given."""
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        return None
    name = str(tensor.name)
    entries = {entry.key: entry.value for entry in tensor.external_data}
    location = entries.get("location", "")
    path = (folder / location).resolve()
    if not location or not path.is_relative_to(folder.resolve()) or path == folder.resolve():
        raise source_error(f"its data lie in {location!r}, which is not a file in the folder of the model", name)
    numbers = [entries.get(key, "") for key in ("offset", "length")]
    if not all(number == "" or (number.isascii() and number.isdigit() and len(number) < 20) for number in numbers):
        raise source_error("the place of its data is not a number of bytes", name)
    if path not in files:
        require_regular_file(path)
        files[path] = open_source(path, "auto")
        model.resources.callback(files[path].close)
    return files[path], int(numbers[0] or 0), int(numbers[1]) if numbers[1] else None
