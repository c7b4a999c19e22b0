"""Compiled libraries on disk: a directory of mode 0700 that the user owns, one file a library, named by a hash."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import stat
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

_LOGGER = logging.getLogger(__name__)

SUFFIX = ".so"


def key_of(sources: Sequence[str], command: Sequence[str]) -> str:
    """Return the name of what a compiler makes of sources: a hash of them, the compiler and its flags."""
    compiler = Path(command[0]).resolve()
    found = compiler.stat()
    parts = [*sources, *command, str(compiler), str(found.st_size), str(found.st_mtime_ns)]
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogateescape")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


@contextlib.contextmanager
def library_file(key: str, build: Callable[[Path], Path]) -> Generator[Path]:
    """Yield the file of a library, from the cache or else built in an empty private directory that ``build`` is given.

    Without a directory that is safe to keep it in, the file is gone afterwards.
    """
    kept = cache_directory(_base())
    if kept is not None and (kept / f"{key}{SUFFIX}").is_file():
        yield kept / f"{key}{SUFFIX}"
        return
    work = Path(tempfile.mkdtemp(prefix="unfinished-", dir=kept))
    try:
        built = build(work)
        if kept is not None:
            built = built.replace(kept / f"{key}{SUFFIX}")
        yield built
    finally:
        shutil.rmtree(work, ignore_errors=True)


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
    """Return the directory for libraries below ``base``, made if need be; None, logged once, where none is safe."""
    if base is None:
        _LOGGER.warning("no home directory: compiled programs are not kept")
        return None
    directory = base / "openinfer-c"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        reason = _unsafe(directory)
    except OSError as error:
        reason = str(error)
    if reason is None:
        return directory
    _LOGGER.warning("compiled programs are not kept in %s: %s", directory, reason)
    return None


def _unsafe(directory: Path) -> str | None:
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode):
        return "it is no directory"
    if not os.access(directory, os.W_OK):
        return "it cannot be written to"
    if not hasattr(os, "getuid"):
        return None
    if found.st_uid != os.getuid():
        return "another user owns it"
    mode = stat.S_IMODE(found.st_mode)
    return f"its mode is {mode:04o}, expected 0700" if mode & 0o077 else None
