"""Writes .npz files as NumPy does, without compression. Only tensors have a place there."""

from __future__ import annotations

import io
import os
import zipfile
from typing import IO, cast

import numpy as np

from ...arrays import numpy_dtype
from ...atomicfile import AtomicFile
from ...reader import OinfFile
from ...tensor import StoredTensor
from ..model import Change
from ..values import ExportOptions, exported_blocks, exported_type, plain_changes, require_exportable

NAME = "npz"
SUFFIXES = (".npz",)


def export(file: OinfFile, target: str | os.PathLike[str], options: ExportOptions) -> tuple[Change, ...]:
    """Write all tensors with data; returns what is lost or altered. Raises `OinfError` and `OSError`."""
    tensors = [tensor for tensor in file.tensors() if tensor.has_data]
    widened = ExportOptions(dequantize=options.dequantize, native_only=True)
    require_exportable(tensors, widened)
    with AtomicFile.writing(target) as out:
        # zipfile expects every write to take all that it is given.
        buffered = io.BufferedWriter(cast("io.RawIOBase", out.file))
        with zipfile.ZipFile(buffered, "w", zipfile.ZIP_STORED) as archive:
            for tensor in tensors:
                _write_member(archive, tensor, widened)
        buffered.flush()
        buffered.detach()
    dropped = [Change("dropped", name, "metadata") for name in file.metadata]
    return (*plain_changes(file, tensors, widened), *dropped)


def _write_member(archive: zipfile.ZipFile, tensor: StoredTensor, options: ExportOptions) -> None:
    # The same date for every member: equal contents give equal bytes.
    member = zipfile.ZipInfo(f"{tensor.name}.npy", (1980, 1, 1, 0, 0, 0))
    with archive.open(member, "w", force_zip64=True) as stream:
        _write_npy(stream, tensor, options)


def _write_npy(stream: IO[bytes], tensor: StoredTensor, options: ExportOptions) -> None:
    dtype = numpy_dtype(exported_type(tensor, options))
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": tensor.shape}
    np.lib.format.write_array_header_1_0(stream, header)
    for block in exported_blocks(tensor, options):
        stream.write(memoryview(np.ascontiguousarray(block).astype(dtype, copy=False).view(np.uint8).data))
