"""Progress of long work: one line that is written over, on a terminal only.

Code that does countable work, such as moving bytes, calls `expect` and `advance`; they do nothing unless a command has
put up a bar with `progress_bar`: a function that is called from Python writes to no terminal.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TextIO

_CELLS = 30
_SECONDS_BEFORE = 2.0
"""What ends sooner shows nothing."""
_SECONDS_BETWEEN = 0.1
_SECONDS_OF_SILENCE = 1.0
"""After as much the line is written again, so that work that cannot be counted shows how long it has taken."""


class ProgressBar:
    """One line of `out`: how much of the expected work is done, or the seconds where nothing is expected."""

    def __init__(self, label: str, out: TextIO) -> None:
        self._label = label
        self._total = 0
        self._out = out
        self._done = 0
        self._began = time.monotonic()
        self._shown_at = self._began
        self._width = 0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        # A daemon, since nothing waits for a bar.
        self._clock = threading.Thread(target=self._show_while_silent, daemon=True)
        self._clock.start()

    def expect(self, amount: int) -> None:
        self._total += amount

    def advance(self, amount: int) -> None:
        self._done += amount
        self._show_after(_SECONDS_BETWEEN)

    def end(self) -> None:
        """Remove the line; the bar is not used again."""
        self._ended.set()
        self._clock.join()
        if self._width:
            self._out.write("\r" + " " * self._width + "\r")
            self._out.flush()

    def _show_while_silent(self) -> None:
        while not self._ended.wait(_SECONDS_OF_SILENCE):
            self._show_after(_SECONDS_OF_SILENCE)

    def _show_after(self, seconds: float) -> None:
        now = time.monotonic()
        if now - self._began < _SECONDS_BEFORE or now - self._shown_at < seconds:
            return
        with self._lock:
            self._shown_at = now
            line = self._line(now - self._began)
            self._out.write("\r" + line.ljust(self._width))
            self._out.flush()
            self._width = len(line)

    def _line(self, seconds: float) -> str:
        if not self._total:
            return f"{self._label} ... {seconds:.0f} s"
        share = min(self._done / self._total, 1.0)
        full = int(share * _CELLS)
        return f"{self._label} [{'#' * full}{'.' * (_CELLS - full)}] {share:4.0%}"


_CURRENT: ContextVar[ProgressBar | None] = ContextVar("progress_bar", default=None)


def expect(amount: int) -> None:
    """Add to the work to be done of the bar, if there is one: bytes, or what else its command counts."""
    bar = _CURRENT.get()
    if bar is not None:
        bar.expect(amount)


def advance(amount: int) -> None:
    """Add to the work done of the bar, if there is one."""
    bar = _CURRENT.get()
    if bar is not None:
        bar.advance(amount)


@contextmanager
def progress_bar(label: str, out: TextIO | None = None, *, quiet: bool = False) -> Generator[None]:
    """Show how much of what is expected has been done, or for how long, if `out` (standard error) is a terminal.

    Nothing is shown of work that ends within two seconds, and with `quiet`. A bar within a bar is part of it.
    """
    stream = out or sys.stderr
    if quiet or _CURRENT.get() is not None or not stream.isatty():
        yield
        return
    bar = ProgressBar(label, stream)
    token = _CURRENT.set(bar)
    try:
        yield
    finally:
        _CURRENT.reset(token)
        bar.end()
