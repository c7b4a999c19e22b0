"""Compiled shaders on disk: a directory of mode 0700 that the user owns, one file a shader, named by a hash."""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import tempfile
from functools import cache
from pathlib import Path

_LOGGER = logging.getLogger(__name__)


def cached(key: str) -> bytes | None:
    """Return what was kept under ``key``, or None."""
    directory = cache_directory(_base())
    if directory is None:
        return None
    try:
        return (directory / f"{key}.spv").read_bytes()
    except OSError:
        return None


def keep(key: str, code: bytes) -> None:
    """Keep ``code`` under ``key``; a directory that cannot be written to is passed over."""
    directory = cache_directory(_base())
    if directory is None:
        return
    with contextlib.suppress(OSError):
        _write_by_rename(directory, f"{key}.spv", code)


def _write_by_rename(directory: Path, name: str, code: bytes) -> None:
    descriptor, unfinished = tempfile.mkstemp(dir=directory, prefix="unfinished-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(code)
        Path(unfinished).replace(directory / name)
    except OSError:
        Path(unfinished).unlink(missing_ok=True)
        raise


def _base() -> Path | None:
    given = os.environ.get("XDG_CACHE_HOME", "")
    if given and Path(given).is_absolute():
        return Path(given)
    try:
        return Path.home() / ".cache"
    except RuntimeError:
        return None


@cache
def cache_directory(base: Path | None) -> Path | None:
    """Return the directory for shaders below ``base``, made if need be; None, logged once, where none is safe."""
    if base is None:
        _LOGGER.warning("no home directory: compiled shaders are not kept")
        return None
    directory = base / "openinfer-spirv"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        reason = _unsafe(directory)
    except OSError as error:
        reason = str(error)
    if reason is None:
        return directory
    _LOGGER.warning("compiled shaders are not kept in %s: %s", directory, reason)
    return None


def _unsafe(directory: Path) -> str | None:
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode):
        return "it is no directory"
    if not hasattr(os, "getuid"):
        return None
    if found.st_uid != os.getuid():
        return "another user owns it"
    mode = stat.S_IMODE(found.st_mode)
    return f"its mode is {mode:04o}, expected 0700" if mode & 0o077 else None
