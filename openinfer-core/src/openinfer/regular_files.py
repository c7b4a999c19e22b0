"""Files of the user: read whole only where they are regular and of a bounded size, and named in every error.

Pipes would be waited for without end and devices such as ``/dev/zero`` have none, so neither is opened.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Generator

MIB = 1 << 20

TEXT_NBYTES = 64 * MIB
"""Most bytes of a program text, a graph, a device file or a script."""

_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for reading.

    Raises:
        OSError: it cannot be opened, or is not a regular file.
    """
    _require_regular(path, Path(path).stat().st_mode)
    # Another file may have taken the name meanwhile: opening a pipe must not wait.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0))
    try:
        _require_regular(path, os.fstat(descriptor).st_mode)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: str | os.PathLike[str], limit: int = TEXT_NBYTES) -> bytes:
    """Return what a regular file holds.

    Raises:
        OSError: it cannot be read, is not a regular file, or is larger than ``limit`` bytes.
    """
    with open_regular(path) as stream:
        return read_bounded(stream, os.fspath(path), limit)


def head_of(path: str | os.PathLike[str], nbytes: int) -> bytes:
    """Return the first bytes of a regular file.

    Raises:
        OSError: it cannot be read, or is not a regular file.
    """
    with open_regular(path) as stream:
        return stream.read(nbytes)


def read_bounded(stream: IO[bytes], name: str, limit: int = TEXT_NBYTES) -> bytes:
    """Return the rest of a stream.

    Raises:
        OSError: there is more than ``limit`` bytes; nothing beyond them is read.
    """
    with naming(name):
        data = stream.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"larger than the {limit // MIB} MiB that such a file may have", name)
    return data


@contextmanager
def naming(path: str | os.PathLike[str]) -> Generator[None]:
    """Give errors of the system the name of a file where they have none, as those of a full disk.

    Raises:
        OSError: what is raised inside.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise OSError(error.errno or errno.EIO, error.strerror or str(error), os.fspath(path)) from error
        raise


def _require_regular(path: str | os.PathLike[str], mode: int) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    kind = _KINDS.get(stat.S_IFMT(mode), "something else")
    raise OSError(errno.EINVAL, f"expected a regular file, found {kind}", os.fspath(path))
