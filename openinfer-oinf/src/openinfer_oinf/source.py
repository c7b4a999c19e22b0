"""Where the bytes of a container come from: a mapping, positioned reads, or memory."""

from __future__ import annotations

import mmap
import os
import stat
import threading
import weakref
from pathlib import Path
from typing import BinaryIO, Literal, Protocol

from .errors import NOT_A_FILE, Finding, OinfError

MapMode = Literal["auto"] | bool
Openable = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO


class ByteSource(Protocol):
    """Read-only bytes of a known size; `view` may be called from any thread.

    `is_addressable`: a view costs nothing, and only the bytes of it that are read are fetched.
    """

    is_addressable: bool

    @property
    def size(self) -> int: ...

    def view(self, offset: int, nbytes: int) -> memoryview: ...

    def close(self) -> None: ...


def _closed() -> OinfError:
    return OinfError(Finding(code="E_CLOSED", message="the file has been closed; open it again"))


def _truncated(offset: int, nbytes: int, got: int) -> OinfError:
    message = f"the file ended early: {got} of {nbytes} bytes could be read; it has shrunk since it was opened"
    return OinfError(Finding(code="E_TRUNCATED", message=message, offset=offset))


class MemorySource:
    """Bytes in memory or in a mapping; a view keeps them alive after `close`."""

    is_addressable = True

    def __init__(self, buffer: bytes | bytearray | memoryview | mmap.mmap) -> None:
        self._view: memoryview | None = memoryview(buffer).toreadonly().cast("B")
        self._size = len(self._view)

    @property
    def size(self) -> int:
        return self._size

    def view(self, offset: int, nbytes: int) -> memoryview:
        view = self._view
        if view is None:
            raise _closed()
        return view[offset : offset + nbytes]

    def close(self) -> None:
        # The mapping goes when its last view does: closing it by force would raise while arrays are out.
        self._view = None


class _Descriptor:
    """A file descriptor that is closed when nobody holds it any more, so no thread reads a reused number."""

    def __init__(self, number: int) -> None:
        self.number = number
        weakref.finalize(self, os.close, number)


class DescriptorSource:
    """Positioned reads into private memory: for file systems where mapping fails or files shrink."""

    is_addressable = False

    def __init__(self, descriptor: _Descriptor, size: int) -> None:
        self._descriptor: _Descriptor | None = descriptor
        self._size = size

    @property
    def size(self) -> int:
        return self._size

    def view(self, offset: int, nbytes: int) -> memoryview:
        descriptor = self._descriptor
        if descriptor is None:
            raise _closed()
        target = memoryview(bytearray(nbytes))
        done = 0
        while done < nbytes:
            got = os.preadv(descriptor.number, [target[done:]], offset + done)
            if got == 0:
                raise _truncated(offset, nbytes, done)
            done += got
        return target.toreadonly()

    def close(self) -> None:
        self._descriptor = None


class FileObjectSource:
    """A seekable binary file object of the caller's, which stays open; reads take turns."""

    is_addressable = False

    def __init__(self, file: BinaryIO, *, owned: bool = False) -> None:
        self._file: BinaryIO | None = file
        self._owned = owned
        self._lock = threading.Lock()
        self._size = file.seek(0, os.SEEK_END)

    @property
    def size(self) -> int:
        return self._size

    def view(self, offset: int, nbytes: int) -> memoryview:
        with self._lock:
            if self._file is None:
                raise _closed()
            self._file.seek(offset)
            data = self._file.read(nbytes)
        if len(data) != nbytes:
            raise _truncated(offset, nbytes, len(data))
        return memoryview(data).toreadonly()

    def close(self) -> None:
        with self._lock:
            file, self._file = self._file, None
        if file is not None and self._owned:
            file.close()


def open_source(source: Openable, map_file: MapMode) -> ByteSource:
    """Open a path, bytes or a binary file object for reading.

    Raises `OSError` when the path cannot be opened (or mapped, with `map_file=True`), and `OinfError`
    (E_NOT_A_FILE) for directories, pipes and devices.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        return MemorySource(source)
    if isinstance(source, str | os.PathLike):
        return _open_path(Path(source), map_file)
    if not (hasattr(source, "seek") and hasattr(source, "read")):
        raise TypeError(f"expected a path, bytes or a binary file object, not {type(source).__name__}")
    return FileObjectSource(source)


def require_regular_file(path: Path) -> None:
    """Raise `OinfError` (E_NOT_A_FILE) for directories, pipes and devices, which no reader opens, and `OSError`."""
    _require_regular(path, path.stat().st_mode)


def _require_regular(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise OinfError(Finding(code=NOT_A_FILE, message="not a regular file"), source=str(path))


def _open_path(path: Path, map_file: MapMode) -> ByteSource:
    # Checked before opening, too: opening a pipe would wait for a writer.
    require_regular_file(path)
    descriptor = _Descriptor(os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)))
    status = os.fstat(descriptor.number)
    _require_regular(path, status.st_mode)
    if map_file and status.st_size > 0:
        try:
            return MemorySource(mmap.mmap(descriptor.number, status.st_size, access=mmap.ACCESS_READ))
        except (OSError, ValueError):
            if map_file is True:
                raise
    if hasattr(os, "preadv"):
        return DescriptorSource(descriptor, status.st_size)
    return FileObjectSource(path.open("rb"), owned=True)
