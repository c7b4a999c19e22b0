"""Inputs of a batch in files: one archive whose arrays have an axis of inputs in front, or a file for each input."""

from __future__ import annotations

import glob
import lzma
import math
import struct
import tokenize
import zipfile
import zlib
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from openinfer.errors import ExecutionError
from openinfer.regular_files import open_regular

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]

SUFFIXES = (".npz", ".npy")

_DAMAGED = (
    *(ValueError, EOFError, OverflowError, KeyError, RuntimeError, struct.error),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, tokenize.TokenError, SyntaxError, TypeError),
)
"""What NumPy and zipfile raise for files that are none of theirs, or damaged."""


@dataclass(frozen=True, slots=True)
class Item:
    """One input: what messages call it, and what reads its values."""

    name: str
    load: Callable[[], Mapping[str, Any]]


class Inputs(Protocol):
    """Inputs in files."""

    @property
    def stems(self) -> Sequence[str]:
        """What the result of each may be called: names that differ, without a suffix."""
        ...

    @property
    def files(self) -> Sequence[Path]:
        """The files that are read."""
        ...

    def __iter__(self) -> Iterator[Item]: ...


def open_inputs(source: str, alone: Callable[[], str]) -> Inputs:
    """Return the inputs of one file, of a folder, or of the files that a pattern with ``*`` finds.

    Args:
        alone: returns the variable that an array in a ``.npy`` file is for, or raises where several could be meant.

    Raises:
        ExecutionError: ``input-file``, there are none, or the file cannot be read.
    """
    path = Path(source)
    if path.is_file() and path.suffix in SUFFIXES:
        return StackedInputs(path, alone() if path.suffix == ".npy" else None)
    if path.is_dir():
        found = [file for file in path.iterdir() if file.suffix in SUFFIXES and file.is_file()]
    else:
        found = [Path(name) for name in glob.glob(source, recursive=True)]  # noqa: PTH207 - Path.glob refuses absolute ones
    unfit = [file for file in found if file.suffix not in SUFFIXES]
    if unfit:
        raise _wrong(f"{str(unfit[0])!r} is neither .npz nor .npy")
    if not found:
        expected = "expected a file .npz or .npy, a folder with such files, or a pattern"
        raise _wrong(f"{source!r} names no inputs: {expected}")
    name = alone() if any(file.suffix == ".npy" for file in found) else ""
    return FileInputs(tuple(sorted(found)), name)


@dataclass(frozen=True, slots=True)
class FileInputs:
    """A file for each input: an archive of arrays by name of variable, or one array for the variable ``alone``."""

    files: tuple[Path, ...]
    alone: str

    @property
    def stems(self) -> tuple[str, ...]:
        """The files' names, numbered where they would not differ, also where a file system ignores case."""
        stems = tuple(file.stem for file in self.files)
        if len({stem.casefold() for stem in stems}) == len(stems):
            return stems
        return tuple(f"{number}-{stem}" for number, stem in zip(_numbers(len(stems)), stems, strict=True))

    def __iter__(self) -> Iterator[Item]:
        for file in self.files:
            yield Item(file.name, lambda file=file: self._values(file))

    def _values(self, file: Path) -> dict[str, Array]:
        with _readable(file), open_regular(file) as stream:
            if file.suffix == ".npy":
                return {self.alone: np.lib.format.read_array(stream, allow_pickle=False)}
            with zipfile.ZipFile(stream) as archive:
                return {_variable(name): _member(archive, name) for name in archive.namelist()}


class StackedInputs:
    """One file with all inputs: input number i is row i of each array. Rows are read one after the other.

    Args:
        alone: the variable that the array of a ``.npy`` file is for; None for an archive, which names them.

    Raises:
        ExecutionError: ``input-file``, the file holds no arrays, or they have different numbers of rows.
    """

    def __init__(self, path: Path, alone: str | None) -> None:
        self.files = (path,)
        self._path = path
        self._alone = alone
        with _readable(path), self._streams() as streams:
            counts = {name: _Rows.of(name, stream, nbytes).count for name, (stream, nbytes) in streams.items()}
        if not counts:
            raise _wrong(f"{str(path)!r} holds no arrays")
        if len(set(counts.values())) > 1:
            listed = ", ".join(f"{name} {count}" for name, count in counts.items())
            raise _wrong(f"arrays of {str(path)!r} have different numbers of inputs along their first axis: {listed}")
        self.names = tuple(counts)
        self._count = next(iter(counts.values()))

    @property
    def stems(self) -> tuple[str, ...]:
        """Numbers with leading zeros."""
        return _numbers(self._count)

    def __iter__(self) -> Iterator[Item]:
        with _readable(self._path), self._streams() as streams:
            rows = {name: _Rows.of(name, stream, nbytes) for name, (stream, nbytes) in streams.items()}
            for index in range(self._count):
                values = {name: each.next() for name, each in rows.items()}
                yield Item(f"row {index}", lambda values=values: values)

    @contextmanager
    def _streams(self) -> Generator[dict[str, tuple[IO[bytes], int]]]:
        """Open every array; with its length in bytes."""
        with ExitStack() as stack:
            if self._alone is not None:
                stream = stack.enter_context(open_regular(self._path))
                yield {self._alone: (stream, self._path.stat().st_size)}
                return
            archive = stack.enter_context(zipfile.ZipFile(self._path))
            yield {
                _variable(each.filename): (stack.enter_context(archive.open(each)), each.file_size)
                for each in archive.infolist()
            }


@dataclass(frozen=True, slots=True)
class _Rows:
    """An array whose rows are read one after the other."""

    name: str
    stream: IO[bytes]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @staticmethod
    def of(name: str, stream: IO[bytes], nbytes: int) -> _Rows:
        shape, in_columns, dtype = _header(stream)
        if not shape:
            raise ValueError(f"{name!r} is a single number: expected an array with the inputs along its first axis")
        if in_columns and len(shape) > 1:
            raise ValueError(f"{name!r} is stored column by column: save it with np.ascontiguousarray")
        left, wanted = nbytes - stream.tell(), math.prod(shape) * dtype.itemsize
        if left != wanted:
            raise ValueError(f"{name!r} has {left} bytes of elements, {list(shape)} of {dtype} are {wanted}")
        return _Rows(name, stream, dtype, shape)

    @property
    def count(self) -> int:
        return self.shape[0]

    def next(self) -> Array:
        nbytes = math.prod(self.shape[1:]) * self.dtype.itemsize
        data = self.stream.read(nbytes)
        if len(data) != nbytes:
            raise EOFError(f"{self.name!r} ends early")
        return np.frombuffer(data, self.dtype).reshape(self.shape[1:])


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, whether columns come first, and element type from the head of a ``.npy`` file."""
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version} of the array format is not read")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, in_columns, dtype = read(stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are never read")
    return shape, in_columns, dtype


def _member(archive: zipfile.ZipFile, name: str) -> Array:
    with archive.open(name) as stream:
        return np.lib.format.read_array(stream, allow_pickle=False)


def _variable(member: str) -> str:
    return member.removesuffix(".npy")


def _numbers(count: int) -> tuple[str, ...]:
    width = len(str(max(count - 1, 0)))
    return tuple(f"{number:0{width}d}" for number in range(count))


@contextmanager
def _readable(file: Path) -> Generator[None]:
    """Name the file that cannot be read."""
    try:
        yield
    except _DAMAGED as error:
        raise _wrong(f"{str(file)!r} cannot be read as arrays: {error}") from error
    except OSError as error:
        if error.filename is not None:
            raise
        # A damaged archive sends its reader to places that no file has.
        raise _wrong(f"{str(file)!r} cannot be read as arrays: {error}") from error
    except MemoryError as error:
        raise _wrong(f"{str(file)!r} says that it holds more than fits in memory: {error}") from error


def _wrong(message: str) -> ExecutionError:
    return ExecutionError(message, code="input-file")
