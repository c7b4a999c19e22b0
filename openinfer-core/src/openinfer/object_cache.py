"""Compiled objects on disk: in a directory of mode 0700 that the user owns, one file an object, named by a hash.

What lies there is run, so a directory that others can reach is never used, and a file ends with a digest of its object:
loaders and drivers crash on objects that are cut off. Objects may be lost at any time: a cache that cannot be used is
reported once and passed over. Where objects come to more than `LIMIT_VARIABLE` says, those that were used least
recently are removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import stat
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from openinfer_oinf.atomicfile import AtomicFile

_LOGGER = logging.getLogger(__name__)

LIMIT_VARIABLE = "OPENINFER_CACHE_MIB"
"""Environment variable with the most MiB that the objects of one kind come to; with 0 none is kept."""

DEFAULT_LIMIT_MIB = 512

_DIGEST_NBYTES = hashlib.sha256().digest_size


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectCache:
    """The compiled objects of one kind, in a directory of their own.

    Attributes:
        name: name of the directory.
        suffix: ending of its files, such as ``".so"``.
        holds: what messages call the objects, in the plural.
    """

    name: str
    suffix: str
    holds: str

    @property
    def limit_nbytes(self) -> int:
        """The most bytes that its objects come to, but for a larger one that was kept last."""
        return _limit_nbytes(self.holds)

    def find(self, key: str) -> Path | None:
        """Return the file that is kept under ``key``; None if there is none, or it is damaged.

        It is the object followed by its digest. Loaders of libraries go by headers, and pass over that.
        """
        found = self._read(key)
        return None if found is None else found[0]

    def read(self, key: str) -> bytes | None:
        """Return the object that is stored under ``key``; None if it is missing or damaged."""
        found = self._read(key)
        return None if found is None else found[1]

    def keep(self, key: str, data: bytes) -> Path | None:
        """Keep an object in place of what was there; return its file, or None where it cannot be kept."""
        directory = self._directory()
        limit = self.limit_nbytes
        if directory is None or not limit:
            return None
        try:
            kept = _write_by_rename(directory / f"{key}{self.suffix}", data + _digest(data))
        except OSError as error:
            _warn(self.holds, directory, error.strerror or str(error))
            return None
        _remove_oldest(directory, self.suffix, limit, kept)
        return kept

    def _read(self, key: str) -> tuple[Path, bytes] | None:
        directory = self._directory()
        if directory is None:
            return None
        file = directory / f"{key}{self.suffix}"
        try:
            data = file.read_bytes()
        except OSError:
            return None
        if data[-_DIGEST_NBYTES:] != _digest(data[:-_DIGEST_NBYTES]):
            return None
        with contextlib.suppress(OSError):  # The time of its latest use; a cache that cannot be written to has none.
            os.utime(file)
        return file, data[:-_DIGEST_NBYTES]

    def _directory(self) -> Path | None:
        base = cache_base()
        if base is None:
            _warn(self.holds, None, "there is no home directory")
            return None
        directory, reason = _made(base / self.name)
        if reason is not None:
            _warn(self.holds, directory, reason)
            return None
        return directory


def cache_base() -> Path | None:
    """Return the directory for the caches of all programs; None for a user without a home directory."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    if given and Path(given).is_absolute():
        return Path(given)
    try:
        return Path.home() / ".cache"
    except RuntimeError:
        return None


def unsafe_reason(directory: Path) -> str | None:
    """Return why others could put files in a directory, or None for one that is safe.

    Raises:
        OSError: there is no such directory.
    """
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode):
        return "it is not a directory"
    if not hasattr(os, "getuid"):
        return None
    if found.st_uid != os.getuid():
        return "another user owns it"
    mode = stat.S_IMODE(found.st_mode)
    return f"its mode is {mode:04o}, expected 0700" if mode & 0o077 else None


@cache
def _made(directory: Path) -> tuple[Path, str | None]:
    """Return a directory, made if need be, and why it is not to be used."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return directory, unsafe_reason(directory)
    except OSError as error:
        return directory, error.strerror or str(error)


@cache
def _warn_of_limit(holds: str, given: str) -> None:
    message = "%s is %r, expected a whole number of MiB, 0 or more: %s are kept up to %d MiB"
    _LOGGER.warning(message, LIMIT_VARIABLE, given, holds, DEFAULT_LIMIT_MIB)


def _limit_nbytes(holds: str) -> int:
    """Return the most bytes that the objects of one kind come to."""
    given = os.environ.get(LIMIT_VARIABLE, "").strip()
    if given and not (given.isascii() and given.isdigit()):
        _warn_of_limit(holds, given)
        given = ""
    return int(given or DEFAULT_LIMIT_MIB) << 20


def _remove_oldest(directory: Path, suffix: str, limit: int, newest: Path) -> None:
    """Remove the objects that were used least recently until the rest is within a limit, but never ``newest``."""
    found: list[tuple[int, int, Path]] = []
    with contextlib.suppress(OSError):
        for file in directory.iterdir():
            with contextlib.suppress(OSError):  # Another process may remove it at the same time.
                about = file.lstat()
                if file.suffix == suffix:
                    found.append((about.st_mtime_ns, about.st_size, file))
    total = sum(size for _, size, _ in found)
    for _, size, file in sorted(found):
        if total <= limit:
            return
        if file != newest:
            total -= size
            with contextlib.suppress(OSError):
                file.unlink()


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


@cache
def _warn(holds: str, directory: Path | None, reason: str) -> None:
    """Log, once, that objects are not kept."""
    _LOGGER.warning("%s are not kept%s: %s", holds, "" if directory is None else f" in {directory}", reason)


def _write_by_rename(file: Path, data: bytes) -> Path:
    """Write a file that others see whole or not at all, also after the machine has failed."""
    with AtomicFile.writing(file, mode=0o600) as unfinished:
        unfinished.write_whole(data)
    return file
