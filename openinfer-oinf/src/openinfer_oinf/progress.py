"""A progress bar for long work, on a terminal only.

Code that moves bytes calls `expect` and `advance`; they do nothing unless a command has put up a bar with
`progress_bar`: a function that is called from Python writes to no terminal.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TextIO

_CELLS = 30
_SECONDS_BETWEEN = 0.1


class ProgressBar:
    """One line of `out` that is written over at most ten times a second."""

    def __init__(self, label: str, out: TextIO) -> None:
        self._label = label
        self._total = 0
        self._out = out
        self._done = 0
        # Work that takes less than the interval shows no bar at all.
        self._shown_at = time.monotonic()
        self._width = 0

    def expect(self, nbytes: int) -> None:
        self._total += nbytes

    def advance(self, nbytes: int) -> None:
        self._done += nbytes
        if time.monotonic() - self._shown_at >= _SECONDS_BETWEEN:
            self._show()

    def _show(self) -> None:
        self._shown_at = time.monotonic()
        share = min(self._done / max(self._total, 1), 1.0)
        full = int(share * _CELLS)
        line = f"{self._label} [{'#' * full}{'.' * (_CELLS - full)}] {share:4.0%}"
        self._out.write("\r" + line.ljust(self._width))
        self._out.flush()
        self._width = len(line)

    def clear(self) -> None:
        if self._width:
            self._out.write("\r" + " " * self._width + "\r")
            self._out.flush()


_CURRENT: ContextVar[ProgressBar | None] = ContextVar("progress_bar", default=None)


def expect(nbytes: int) -> None:
    """Add to the bytes to be done of the bar, if there is one."""
    bar = _CURRENT.get()
    if bar is not None:
        bar.expect(nbytes)


def advance(nbytes: int) -> None:
    """Add to the bytes done of the bar, if there is one."""
    bar = _CURRENT.get()
    if bar is not None:
        bar.advance(nbytes)


@contextmanager
def progress_bar(label: str, out: TextIO | None = None) -> Generator[None]:
    """Show how much of what is expected has been done, if `out` (standard error) is a terminal."""
    stream = out or sys.stderr
    if not stream.isatty():
        yield
        return
    bar = ProgressBar(label, stream)
    token = _CURRENT.set(bar)
    try:
        yield
    finally:
        _CURRENT.reset(token)
        bar.clear()
