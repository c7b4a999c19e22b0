"""Progress of long work: one line that is written over, on a terminal only.

Code that does countable work, such as moving bytes, calls `expect` and `advance`; they do nothing unless a command has
put up a bar with `progress_bar`: a function that is called from Python writes to no terminal.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import unicodedata
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TextIO

from .errors import shown

_CELLS = 30
_SECONDS_BEFORE = 2.0
"""What ends sooner shows nothing."""
_SECONDS_BETWEEN = 0.1
_SECONDS_OF_SILENCE = 1.0
"""The line is rewritten after this many seconds without progress."""
_LEFT_OUT = "..."
_COLUMNS = 80
"""Assumed of a terminal that does not say how wide it is."""


class ProgressBar:
    """One line of `out`: how much of the expected work is done, or the seconds where nothing is expected."""

    def __init__(self, label: str, out: TextIO) -> None:
        self._label = shown(label)
        self._total = 0
        self._out = out
        self._done = 0
        self._began = time.monotonic()
        self._shown_at = self._began
        self._shown_columns = 0
        self._is_writable = True
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
        self.erase()

    def erase(self) -> None:
        """Remove the line, before other output to the same terminal; the next progress writes it again."""
        with self._lock:
            if self._shown_columns:
                self._write("\r" + " " * self._shown_columns + "\r")
                self._shown_columns = 0

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
            columns = _columns(line)
            self._write("\r" + line + " " * (self._shown_columns - columns))
            self._shown_columns = columns

    def _write(self, text: str) -> None:
        """Write to the terminal; one that is gone or closed must not end the work, and gets no more."""
        if not self._is_writable:
            return
        try:
            self._out.write(text)
            self._out.flush()
        except (OSError, ValueError):
            self._is_writable = False

    def _line(self, seconds: float) -> str:
        """The label and what is done; the label is cut where both do not fit the terminal, in one row of it."""
        state = self._state(seconds)
        # The last column stays free: some terminals go to the next row when it is written.
        room = _terminal_columns(self._out) - 1
        return _cut(self._label, room - len(state)) + state[: max(room, 0)]

    def _state(self, seconds: float) -> str:
        if not self._total:
            return f" ... {seconds:.0f} s"
        share = min(self._done / self._total, 1.0)
        full = int(share * _CELLS)
        return f" [{'#' * full}{'.' * (_CELLS - full)}] {share:4.0%}"


def _terminal_columns(out: TextIO) -> int:
    try:
        return os.get_terminal_size(out.fileno()).columns or _COLUMNS
    except (OSError, ValueError):
        return _COLUMNS


def _columns(text: str) -> int:
    """The columns of a terminal that a text takes: letters such as those of Chinese take two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def _cut(text: str, columns: int) -> str:
    """The beginning of a text that takes at most so many columns."""
    if _columns(text) <= columns:
        return text
    while text and _columns(text) > columns - len(_LEFT_OUT):
        text = text[:-1]
    return (text + _LEFT_OUT)[: max(columns, 0)]


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


def erase() -> None:
    """Remove the line of the bar, if there is one, before other output to the terminal."""
    bar = _CURRENT.get()
    if bar is not None:
        bar.erase()


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
