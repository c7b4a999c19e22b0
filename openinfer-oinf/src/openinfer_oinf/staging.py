"""Temporary files and directories next to what they replace, recognised and removed when their writer was killed.

Their names carry a checksum, so that no other file has such a name, and their writers hold a lock on them, which ends
with the process. An entry with such a name that nobody locks is left over, and `remove_abandoned` removes it. Systems
without such locks keep their left-overs.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Generator
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_NAME = re.compile(r"\.(?P<name>.*)\.(?P<nonce>[0-9a-f]{16})(?P<checksum>[0-9a-f]{16})\.tmp", re.DOTALL)
_LONGEST = 50
"""Characters of the target's name that are kept: four bytes each, and the rest of the name, are below 255 bytes."""


def staging_name(name: str) -> str:
    """Return a new hidden file name for what is to become ``name``."""
    kept, nonce = shortened(name), secrets.token_hex(8)
    return f".{kept}.{nonce}{_checksum(kept, nonce)}.tmp"


def staged_for(name: str) -> str | None:
    """Return the target name, shortened, of a name from `staging_name`; None for every other name."""
    found = _NAME.fullmatch(name)
    if found is None or found["checksum"] != _checksum(found["name"], found["nonce"]):
        return None
    return found["name"]


def shortened(name: str) -> str:
    """Return what `staged_for` answers for ``name``."""
    return name[:_LONGEST]


def create_file(directory: Path, name: str, *, mode: int = 0o666) -> tuple[Path, int]:
    """Create a locked file in a directory; return its path and descriptor. Closing the descriptor ends the lock."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    while True:
        path = directory / staging_name(name)
        descriptor = os.open(path, flags, mode)
        if _is_ours(path, descriptor):
            return path, descriptor
        os.close(descriptor)


def put_in_place(path: Path, file: IO[bytes], target: Path) -> None:
    """Give a file that `create_file` made its name, and close it: later, since that ends the lock, where possible."""
    if os.name == "nt":
        file.close()
    path.replace(target)
    file.close()


@contextlib.contextmanager
def staging_directory(parent: Path, name: str, *, mode: int = 0o777) -> Generator[Path]:
    """A locked new directory; what has its name at the end is removed."""
    path, descriptor = _create_directory(parent, name, mode)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)


@contextlib.contextmanager
def locked(directory: Path) -> Generator[None]:
    """Lock a directory, also under another name, while the block runs: others that lock it wait.

    `remove_abandoned` leaves a locked directory alone. One that cannot be locked is not. In place of a directory of
    `staging_directory`, which is locked for as long as it exists, the nearest other one around it is locked.
    """
    if fcntl is None:
        yield
        return
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            descriptor = os.open(_lockable(directory), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def _lockable(directory: Path) -> Path:
    found = Path(os.path.realpath(directory))
    while staged_for(found.name) is not None:
        found = found.parent
    return found


def remove_abandoned(directory: Path) -> None:
    """Remove the temporary files and directories in ``directory`` whose writers are gone; failures are ignored."""
    with contextlib.suppress(OSError):
        with os.scandir(directory) as entries:
            found = [Path(entry.path) for entry in entries if staged_for(entry.name) is not None]
        for path in found:
            with contextlib.suppress(OSError):
                _remove_if_abandoned(path)


def _checksum(name: str, nonce: str) -> str:
    text = f"openinfer staging\0{nonce}\0{name}".encode("utf-8", "surrogateescape")
    return hashlib.sha256(text).hexdigest()[:16]


def _create_directory(parent: Path, name: str, mode: int) -> tuple[Path, int | None]:
    while True:
        path = parent / staging_name(name)
        path.mkdir(mode)
        if fcntl is None:
            return path, None
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        if _is_ours(path, descriptor):
            return path, descriptor
        os.close(descriptor)


def _is_ours(path: Path, descriptor: int) -> bool:
    """Lock a new entry; return False if another process took it for abandoned between its creation and the lock."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # The file system has no locks: nobody can take the entry for abandoned either.
        return True
    return _is_at(path, descriptor)


def _is_at(path: Path, descriptor: int) -> bool:
    """Return whether a path still leads to an open file."""
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _remove_if_abandoned(path: Path) -> None:
    mode = path.lstat().st_mode
    if fcntl is None or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(descriptor).st_uid != os.geteuid() or not _is_at(path, descriptor):
            return
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            shutil.rmtree(path)
        else:
            path.unlink()
    finally:
        os.close(descriptor)
