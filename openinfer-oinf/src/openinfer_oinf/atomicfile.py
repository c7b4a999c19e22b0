"""Replacing a file in one step: readers, also mapped ones, see the old file or the new, never a part."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import warnings
import weakref
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from .staging import create_file, put_in_place, remove_abandoned

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from numpy.typing import NDArray

_CANNOT_RESERVE = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENODEV)


@contextlib.contextmanager
def naming(path: str | os.PathLike[str]) -> Generator[None]:
    """Give errors of the system the name of the file to be written: those of a full disk have none, others one that
    only we know.
    """
    try:
        yield
    except OSError as error:
        raise OSError(error.errno or errno.EIO, error.strerror or str(error), os.fspath(path)) from error


class WrittenFile(io.FileIO):
    """An unbuffered temporary file; its errors name the final file."""

    def __init__(self, descriptor: int, target: str) -> None:
        super().__init__(descriptor, "w+b")
        self._target = target

    def write(self, data: ReadableBuffer, /) -> int:
        with naming(self._target):
            return super().write(data)


class AtomicFile:
    """A temporary file next to `path` that takes its place on `commit` and vanishes on `discard`.

    One that is dropped without either vanishes as well, with a `ResourceWarning`; one whose process was killed is
    removed by the next `AtomicFile` in the directory. `mode` is that of a new file; one that is replaced keeps its own.
    """

    def __init__(self, path: str | os.PathLike[str], *, mode: int = 0o666) -> None:
        # A link stays a link: what it points to is replaced.
        self._target = Path(os.path.realpath(path))
        if self._target.is_dir():
            raise IsADirectoryError(errno.EISDIR, "cannot write a file over a directory", str(path))
        if not self._target.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "the directory to write to does not exist", str(self._target.parent))
        remove_abandoned(self._target.parent)
        self._name = os.fspath(path)
        with naming(path):
            self._temporary, descriptor = create_file(self._target.parent, self._target.name, mode=mode)
        self.file = cast("BinaryIO", WrittenFile(descriptor, self._name))
        self._finalizer = weakref.finalize(self, _abandon, self.file, self._temporary, self._target, os.getpid())

    @classmethod
    @contextlib.contextmanager
    def writing(cls, path: str | os.PathLike[str], *, mode: int = 0o666) -> Generator[AtomicFile]:
        """A file to write in a `with` block: it takes its place at the end, or vanishes after an exception."""
        atomic = cls(path, mode=mode)
        try:
            yield atomic
        except BaseException:
            atomic.discard()
            raise
        atomic.commit()

    def reserve(self, nbytes: int) -> bool:
        """Give the file its size and its place on the disk, filled with zeros; False where the system cannot.

        Raises `OSError` when the disk is full, before anything is written.
        """
        if not hasattr(os, "posix_fallocate"):
            return False
        try:
            with naming(self._name):
                os.posix_fallocate(self.file.fileno(), 0, nbytes)
        except OSError as error:
            if error.errno in _CANNOT_RESERVE:
                return False
            raise
        return True

    def write_whole(self, data: bytes | memoryview | NDArray[Any]) -> None:
        """Write all bytes at the current place; the file is not buffered and may take less at once."""
        view = memoryview(cast("memoryview", data))
        if not view.nbytes:
            return
        view = view.cast("B")
        while view.nbytes:
            view = view[self.file.write(view) :]

    def commit(self) -> None:
        """Bring the bytes to the disk, then put the file in its place."""
        try:
            with naming(self._name):
                os.fsync(self.file.fileno())
                self._keep_permissions()
                put_in_place(self._temporary, self.file, self._target)
            self._finalizer.detach()
        except BaseException:
            self.discard()
            raise
        _sync_directory(self._target.parent)

    def discard(self) -> None:
        self._finalizer.detach()
        self.file.close()
        self._temporary.unlink(missing_ok=True)

    def _keep_permissions(self) -> None:
        with contextlib.suppress(OSError):
            self._temporary.chmod(self._target.stat().st_mode & 0o777)


def _abandon(file: BinaryIO, temporary: Path, target: Path, process: int) -> None:
    # A forked process that lets go of its copy leaves the file to the one that writes it.
    if os.getpid() != process:
        return
    file.close()
    temporary.unlink(missing_ok=True)
    message = f"{target} was not written: its writer was neither closed nor discarded (a with block does either)"
    warnings.warn(message, ResourceWarning, stacklevel=2)


def _sync_directory(directory: Path) -> None:
    """Make the new name last through a power cut, where the system can sync directories."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
