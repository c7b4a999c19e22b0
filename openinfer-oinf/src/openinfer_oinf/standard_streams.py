"""Standard input, output and error of a command, any of which whoever started it may have closed."""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress
from typing import Any, NoReturn


class _ClosedInput(io.RawIOBase):
    """Standard input that cannot be read."""

    def readable(self) -> bool:
        return True

    def readinto(self, _: Any) -> NoReturn:
        raise OSError(errno.EBADF, "standard input is closed")


def claim_streams() -> None:
    """Make the standard streams safe to use: call it once, before a command opens a file.

    A closed descriptor would become that of the next file that is opened, and what a library prints would go there. So
    closed ones lead to the null device. Reading from closed standard input is an error; what goes to closed standard
    error is lost.

    Raises:
        OSError: standard output is closed, so that no result can be printed.
    """
    is_mute = sys.stdout is None  # pyright: ignore[reportUnnecessaryComparison] -- Python starts so without a descriptor
    for descriptor in range(3):
        _claim(descriptor)
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stdin = io.TextIOWrapper(io.BufferedReader(_ClosedInput()))
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison]
        sys.stderr = os.fdopen(os.dup(2), "w", encoding="utf-8")
    if is_mute:
        sys.stdout = os.fdopen(os.dup(1), "w", encoding="utf-8")
        raise OSError(errno.EBADF, "standard output is closed")


def check_input() -> None:
    """Check that there is a standard input to read from.

    Raises:
        OSError: it is closed.
    """
    raw = getattr(getattr(sys.stdin, "buffer", None), "raw", None)
    if isinstance(raw, _ClosedInput):
        raw.readinto(b"")


def discard_output() -> None:
    """Let the interpreter's last flush of standard output not fail again, as a write to it did."""
    # A stream without a descriptor is not the interpreter's.
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def _claim(descriptor: int) -> None:
    try:
        os.fstat(descriptor)
    except OSError:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, descriptor)
        if null != descriptor:
            os.close(null)
