"""Compiled objects on disk: in a directory of mode 0700 that the user owns, one file an object, named by a hash.

What lies there is run, so a directory that others can reach is never used. Objects may be lost at any time: a cache
that cannot be used is told of once and passed over.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from openinfer_oinf.atomicfile import AtomicFile

_LOGGER = logging.getLogger(__name__)


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

    def find(self, key: str) -> Path | None:
        """Return the file that is kept under ``key``, or None. It may be damaged: whoever opens it finds out."""
        directory = self._directory()
        if directory is None:
            return None
        file = directory / f"{key}{self.suffix}"
        return file if file.is_file() else None

    def read(self, key: str) -> bytes | None:
        """Return what is kept under ``key``, or None."""
        file = self.find(key)
        if file is not None:
            with contextlib.suppress(OSError):
                return file.read_bytes()
        return None

    def keep(self, key: str, data: bytes) -> Path | None:
        """Keep an object in place of what was there; return its file, or None where it cannot be kept."""
        directory = self._directory()
        if directory is None:
            return None
        try:
            return _write_by_rename(directory / f"{key}{self.suffix}", data)
        except OSError as error:
            _tell(self.holds, directory, error.strerror or str(error))
            return None

    def _directory(self) -> Path | None:
        base = cache_base()
        if base is None:
            _tell(self.holds, None, "there is no home directory")
            return None
        directory, reason = _made(base / self.name)
        if reason is not None:
            _tell(self.holds, directory, reason)
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
        return "it is no directory"
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
def _tell(holds: str, directory: Path | None, reason: str) -> None:
    """Log, once, that objects are not kept."""
    _LOGGER.warning("%s are not kept%s: %s", holds, "" if directory is None else f" in {directory}", reason)


def _write_by_rename(file: Path, data: bytes) -> Path:
    """Write a file that others see whole or not at all, also after the machine has failed."""
    with AtomicFile.writing(file, mode=0o600) as unfinished:
        unfinished.write_whole(data)
    return file
