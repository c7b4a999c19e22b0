"""Keeps what the code of plugins prints off standard output, which belongs to the results of a command."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

_OUT, _ERR = 1, 2


class _Diversion:
    """Standard output goes to standard error while at least one thread is inside; the last one out restores it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._stream: IO[str] | None = None
        self._diverted: IO[str] | None = None
        self._descriptor: int | None = None

    def enter(self, *, libraries: bool) -> None:
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._stream, self._diverted = sys.stdout, sys.stderr
                sys.stdout = self._diverted
            if libraries and self._descriptor is None:
                _flush(self._stream)
                self._descriptor = _diverted_descriptor()

    def leave(self) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth:
                return
            # Whoever put another stream in place meanwhile keeps it.
            if sys.stdout is self._diverted:
                sys.stdout = self._stream
            if self._descriptor is not None:
                _flush_libraries()
                os.dup2(self._descriptor, _OUT)
                os.close(self._descriptor)
            self._stream = self._diverted = self._descriptor = None


_DIVERSION = _Diversion()


@contextmanager
def diverted_output(*, libraries: bool = True) -> Generator[None]:
    """Send to standard error what is printed to standard output meanwhile.

    This holds for the process: what other threads print at the same time goes there too.

    Args:
        libraries: whether this holds for libraries too, which write to the descriptor; it takes longer.
    """
    _DIVERSION.enter(libraries=libraries)
    try:
        yield
    finally:
        _DIVERSION.leave()


def _diverted_descriptor() -> int | None:
    """Let the descriptor of standard output lead to standard error; return a copy of it, or None if one is closed."""
    try:
        os.fstat(_ERR)
        kept = os.dup(_OUT)
    except OSError:
        return None
    os.dup2(_ERR, _OUT)
    return kept


def _flush(stream: IO[str] | None) -> None:
    # A closed stream, or a reader that went away: the next write fails.
    with suppress(OSError, ValueError, AttributeError):
        if stream is not None:
            stream.flush()


def _flush_libraries() -> None:
    """Write what the C library still holds for its standard output, which is fully buffered unless a terminal reads."""
    if os.isatty(_OUT):
        return
    # Only here: the module takes milliseconds to import, and some interpreters are built without it.
    with suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).fflush(None)
