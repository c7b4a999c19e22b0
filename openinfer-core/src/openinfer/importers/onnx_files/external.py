"""External data of a model, which may only come from files in its folder."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.importers.onnx_files.failures import broken
from openinfer.importers.onnx_files.source import Payload
from openinfer.ir.types import TensorType
from openinfer.packing import unpack
from openinfer.regular_files import open_regular

if TYPE_CHECKING:
    from openinfer.dtypes import DType
    from openinfer.importers.onnx_files.source import Array


def external_payload(model: str, folder: Path | None, proto: Any, dtype: DType, shape: tuple[int, ...]) -> Payload:
    """Return the numbers of a tensor that names a file.

    Raises:
        ModelImportError: the file lies outside of the folder, is missing or too short.
    """
    entries = {entry.key: entry.value for entry in proto.external_data}
    title = f"{model}: tensor {proto.name!r}"
    path = _inside(title, folder, entries.get("location", ""))
    nbytes = TensorType(dtype, shape).nbytes
    try:
        offset, length = int(entries.get("offset") or 0), int(entries.get("length") or nbytes)
        with open_regular(path) as stream:
            size = stream.seek(0, 2)
    except ValueError as error:
        raise broken(f"{title} has an offset or length that is not a number") from error
    except OSError as error:
        raise broken(f"{title}: cannot read {str(path)!r}: {error.strerror or error}") from error
    if offset < 0 or length != nbytes or offset + length > size:
        message = f"{title} claims {length} bytes at {offset} of {path.name}, which has {size}; its type needs {nbytes}"
        raise broken(message)
    return Payload(dtype, shape, partial(_mapped, path, offset, dtype, shape))


def _inside(title: str, folder: Path | None, location: str) -> Path:
    if folder is None:
        raise broken(f"{title} lies in a file, and the model does not come from one")
    message = f"{title} names the file {location!r}: data of a model lie in its own folder"
    try:
        root = folder.resolve()
        path = (root / location).resolve()
    except (OSError, ValueError, RuntimeError) as error:  # a loop of links is a RuntimeError before Python 3.13
        raise broken(f"{message}, and this is not a path: {error}") from error
    if not location or not path.is_relative_to(root):
        raise broken(message)
    return path


def _mapped(path: Path, offset: int, dtype: DType, shape: tuple[int, ...]) -> Array:
    kind = TensorType(dtype, shape)
    if not kind.count:
        return np.zeros(shape, storage_dtype(dtype))
    if dtype.is_packed:
        stored = np.memmap(path, np.uint8, "r", offset, (kind.nbytes,))
        return unpack(np.asarray(stored), dtype, shape)
    stored = np.memmap(path, np.uint8, "r", offset, (kind.nbytes,))
    return np.asarray(stored).view(storage_dtype(dtype)).reshape(shape)
