"""Reads .npy and .npz files, never pickles. Values stream; those in Fortran order are mapped, or unpacked at once."""

from __future__ import annotations

import errno
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import numpy as np

from ...arrays import Array
from ...encoding import as_array, default_type, encode, encoded_blocks
from ...errors import OinfError
from ...valuetypes import ValueType
from ..model import BLOCK_NBYTES, Blocks, Change, ReadOptions, SourceModel, SourceTensor, source_error

NAME = "npz"
SUFFIXES = (".npz", ".npy")

_NPY = b"\x93NUMPY"
# A packed array in Fortran order is unpacked into memory: so many bytes, or so many times its packed size.
_PACKED_FORTRAN_NBYTES = 1 << 26
_PACKED_FORTRAN_GROWTH = 4
_LONGEST_HEADER = 1 << 16
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_BROKEN = (
    *(ValueError, EOFError, SyntaxError, tokenize.TokenError),
    *(zipfile.BadZipFile, zlib.error, struct.error, NotImplementedError, RuntimeError),
)


def recognises(head: bytes) -> bool:
    """Whether a file begins as .npy does; .npz is recognised by its name, since other formats are zip files, too."""
    return head.startswith(_NPY)


class _Header(NamedTuple):
    shape: tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype[Any]
    nbytes: int


class _Place(NamedTuple):
    """Where an array lies: `open` streams it from its .npy header on, `mapped` has its file and offset."""

    name: str
    open: Callable[[], IO[bytes]]
    nbytes: int
    mapped: tuple[Path, int] | None
    packed_nbytes: int = 0


def read(path: Path, options: ReadOptions) -> SourceModel:
    """The arrays of a file. Raises `OinfError` (E_SOURCE) and `OSError`."""
    with path.open("rb") as file:
        is_npy = file.read(len(_NPY)) == _NPY
    model = SourceModel(nbytes=path.stat().st_size)
    if is_npy:
        with _reporting(path.stem), path.open("rb") as file:
            header = _read_header(file)
        _add(model, options, header, _Place(path.stem, lambda: path.open("rb"), model.nbytes, (path, 0)))
        return model
    try:
        with _reporting(None):
            archive = model.resources.enter_context(zipfile.ZipFile(path))
        _read_members(path, archive, options, model)
    except BaseException:
        model.resources.close()
        raise
    return model


def _read_members(path: Path, archive: zipfile.ZipFile, options: ReadOptions, model: SourceModel) -> None:
    for member in archive.infolist():
        name = member.filename.removesuffix(".npy")
        if not member.filename.endswith(".npy"):
            model.refuse(options, member.filename, "a member that is not a .npy file")
            continue
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise source_error("a member with a compression other than deflate, which NumPy never writes", name)
        with _reporting(name), archive.open(member) as file:
            header = _read_header(file)
            start = _start_of(path, member)

        def reopen(member: zipfile.ZipInfo = member) -> IO[bytes]:
            return archive.open(member)

        mapped = None if member.compress_type else (path, start)
        _add(model, options, header, _Place(name, reopen, member.file_size, mapped, member.compress_size))


def _start_of(path: Path, member: zipfile.ZipInfo) -> int:
    """Where the bytes of a member begin: after its local header, its name and the extra field."""
    with path.open("rb") as file:
        file.seek(member.header_offset)
        head = file.read(30)
    _, name_nbytes, extra_nbytes = _LOCAL_HEADER.unpack(head)
    return member.header_offset + len(head) + name_nbytes + extra_nbytes


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


class _ShortReads:
    """A file of which nothing long can be read at once: the parser checks a header's length after reading it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def read(self, nbytes: int) -> bytes:
        if nbytes > _LONGEST_HEADER:
            raise ValueError(f"a header of {nbytes} bytes, more than {_LONGEST_HEADER}")
        return self._file.read(nbytes)


def _read_header(stream: IO[bytes]) -> _Header:
    """Read up to the values; the header is a literal of at most 10,000 characters, never evaluated."""
    file = cast("IO[bytes]", _ShortReads(stream))
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"format version {version} of .npy is for structured arrays only")
    parse = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, is_fortran, dtype = parse(file)
    if any(dim < 0 for dim in shape):
        raise ValueError(f"negative dimensions {shape}")
    return _Header(shape, is_fortran, dtype, math.prod(shape) * dtype.itemsize)


def _add(model: SourceModel, options: ReadOptions, header: _Header, place: _Place) -> None:
    name, dtype = place.name, header.dtype
    try:
        kind = default_type(as_array(np.empty(0, dtype)))
    except OinfError as error:
        model.refuse(options, name, error.first.message)
        return
    if header.nbytes > place.nbytes:
        message = f"{dtype}{list(header.shape)} takes {header.nbytes} bytes, and {place.nbytes} are there"
        raise source_error(message, name)
    changes: list[Change] = []
    if dtype.byteorder == ">":
        changes.append(Change("copied", name, "bytes swapped from big-endian"))
    is_fortran = header.is_fortran and sum(dim != 1 for dim in header.shape) > 1 and header.nbytes > 0
    if is_fortran:
        _require_unpackable(header, place)
        changes.append(Change("copied", name, "from Fortran to C order"))

    def stored() -> Blocks:
        with _reporting(name):
            yield from _fortran_blocks(header, place, kind) if is_fortran else _blocks(header, place, kind)

    model.tensors.append(SourceTensor(name=name, kind=kind, shape=header.shape, stored=stored, changes=tuple(changes)))


def _require_unpackable(header: _Header, place: _Place) -> None:
    allowed = max(_PACKED_FORTRAN_NBYTES, _PACKED_FORTRAN_GROWTH * place.packed_nbytes)
    if place.mapped is None and header.nbytes > allowed:
        message = (
            f"a packed array in Fortran order is unpacked into memory at once, and {header.nbytes} bytes are over "
            f"{allowed}: save it in C order (numpy.ascontiguousarray), or unpacked (numpy.savez)"
        )
        raise source_error(message, place.name)


def _blocks(header: _Header, place: _Place, kind: ValueType) -> Blocks:
    with place.open() as file:
        _read_header(file)
        width = header.dtype.itemsize
        step = BLOCK_NBYTES // width * width
        for start in range(0, header.nbytes, step):
            yield encode(np.frombuffer(_read_exactly(file, min(step, header.nbytes - start)), header.dtype), kind)


def _fortran_blocks(header: _Header, place: _Place, kind: ValueType) -> Blocks:
    with place.open() as file:
        _read_header(file)
        start = file.tell()
        if place.mapped is None:
            flat: Array = np.frombuffer(_read_exactly(file, header.nbytes), header.dtype)
            yield from encoded_blocks(flat.reshape(header.shape, order="F"), kind)
            return
        while file.read(BLOCK_NBYTES):
            pass  # the end of an archive's member is where its checksum is compared
    path, offset = place.mapped
    array: Array = np.memmap(path, header.dtype, "r", offset + start, header.shape, order="F")
    yield from encoded_blocks(array, kind)


def _read_exactly(file: IO[bytes], nbytes: int) -> bytes:
    data = file.read(nbytes)
    while len(data) < nbytes:
        more = file.read(nbytes - len(data))
        if not more:
            raise EOFError(f"the values end {nbytes - len(data)} bytes early")
        data += more
    return data
