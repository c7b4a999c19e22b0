"""Reads .npy and .npz files, never pickles. Values stream, but for those in Fortran order."""

from __future__ import annotations

import errno
import math
import tokenize
import zipfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from ...arrays import Array
from ...encoding import as_array, default_type, encode, encoded_blocks
from ...errors import OinfError
from ..model import BLOCK_NBYTES, Blocks, Change, ReadOptions, SourceModel, SourceTensor, source_error

NAME = "npz"
SUFFIXES = (".npz", ".npy")

_NPY = b"\x93NUMPY"
_BROKEN = (
    *(ValueError, EOFError, SyntaxError, tokenize.TokenError),
    *(zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError),
)


def recognises(head: bytes) -> bool:
    """Whether a file begins as .npy does; .npz is told by its name, since other formats are zip files, too."""
    return head.startswith(_NPY)


class _Header(NamedTuple):
    shape: tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype[Any]
    nbytes: int


def read(path: Path, options: ReadOptions) -> SourceModel:
    """The arrays of a file. Raises `OinfError` (E_SOURCE) and `OSError`."""
    with path.open("rb") as file:
        is_npy = file.read(len(_NPY)) == _NPY
    model = SourceModel()
    if is_npy:
        with _reporting(path.stem), path.open("rb") as file:
            header = _read_header(file)
        _add(model, options, path.stem, header, lambda: path.open("rb"), path.stat().st_size)
        return model
    try:
        with _reporting(None):
            archive = model.resources.enter_context(zipfile.ZipFile(path))
        _read_members(archive, options, model)
    except BaseException:
        model.resources.close()
        raise
    return model


def _read_members(archive: zipfile.ZipFile, options: ReadOptions, model: SourceModel) -> None:
    for member in archive.infolist():
        name = member.filename.removesuffix(".npy")
        if not member.filename.endswith(".npy"):
            model.refuse(options, member.filename, "a member that is no .npy file")
            continue
        if member.file_size > options.member_nbytes:
            raise source_error(f"the member unpacks to {member.file_size} bytes, over {options.member_nbytes}", name)
        with _reporting(name), archive.open(member) as file:
            header = _read_header(file)

        def reopen(member: zipfile.ZipInfo = member) -> IO[bytes]:
            return archive.open(member)

        _add(model, options, name, header, reopen, member.file_size)


@contextmanager
def _reporting(name: str | None) -> Generator[None]:
    """Turn what NumPy and zipfile raise for broken files into our error."""
    try:
        yield
    except OinfError:
        raise
    except _BROKEN as error:
        raise source_error(f"not a sound .npy or .npz file: {error}", name) from error
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        # zipfile seeks to where a damaged directory points, also before the start of the file.
        raise source_error("not a sound .npz file: its directory points outside it", name) from error


def _read_header(file: IO[bytes]) -> _Header:
    """Read up to the values; the header is a literal of at most 10,000 characters, never evaluated."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise source_error(f"format version {version} of .npy is for structured arrays only")
    parse = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, is_fortran, dtype = parse(file)
    if any(dim < 0 for dim in shape):
        raise source_error(f"negative dimensions {shape}")
    return _Header(shape, is_fortran, dtype, math.prod(shape) * dtype.itemsize)


def _add(model: SourceModel, options: ReadOptions, name: str, header: _Header, reopen: Any, available: int) -> None:
    dtype = header.dtype
    try:
        kind = default_type(as_array(np.empty(0, dtype)))
    except OinfError as error:
        model.refuse(options, name, error.first.message)
        return
    if header.nbytes > available:
        raise source_error(f"{dtype}{list(header.shape)} takes {header.nbytes} bytes, and {available} are there", name)
    changes: list[Change] = []
    if dtype.byteorder == ">":
        changes.append(Change("copied", name, "bytes swapped from big-endian"))
    if header.is_fortran and len(header.shape) > 1:
        changes.append(Change("copied", name, "from Fortran to C order"))

    def stored() -> Blocks:
        with _reporting(name), reopen() as file:
            _read_header(file)
            if header.is_fortran:
                flat = np.frombuffer(_read_exactly(file, header.nbytes), dtype)
                yield from encoded_blocks(flat.reshape(header.shape, order="F"), kind)
                return
            step = BLOCK_NBYTES // dtype.itemsize * dtype.itemsize
            for start in range(0, header.nbytes, step):
                block: Array = np.frombuffer(_read_exactly(file, min(step, header.nbytes - start)), dtype)
                yield encode(block, kind)

    model.tensors.append(SourceTensor(name=name, kind=kind, shape=header.shape, stored=stored, changes=tuple(changes)))


def _read_exactly(file: IO[bytes], nbytes: int) -> bytes:
    data = file.read(nbytes)
    while len(data) < nbytes:
        more = file.read(nbytes - len(data))
        if not more:
            raise EOFError(f"the values end {nbytes - len(data)} bytes early")
        data += more
    return data
