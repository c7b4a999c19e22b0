"""Log lines and the environment variables that ask for them (``specification: runtime.log``).

``HH:MM:SS [KIND] -- message`` in UTC on standard error, in colour on a terminal.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum

from openinfer.diagnostics import printable
from openinfer_oinf.progress import erase


class LogKind(Enum):
    """Kinds of messages; the value is the ANSI colour."""

    TRACE = 34
    WARNING = 33
    ERROR = 91
    CRITICAL = 31
    VK_TRACE = 32


@dataclass(slots=True)
class _Settings:
    kinds: frozenset[LogKind]
    trace: bool
    timer: bool


def _from_environment() -> _Settings:
    level = os.environ.get("OPENINFER_TRACE", "").strip().lower()
    kinds = {LogKind.CRITICAL}
    if level in ("1", "full"):
        kinds |= {LogKind.TRACE, LogKind.ERROR}
    if level == "full":
        kinds.add(LogKind.WARNING)
    if os.environ.get("OPENINFER_VULKAN_TRACE", "").strip().lower() in ("1", "full"):
        kinds.add(LogKind.VK_TRACE)
    return _Settings(frozenset(kinds), level in ("1", "full"), level == "full")


_settings = _from_environment()


def read_environment() -> None:
    """Read the environment variables again; they are read once, when this module is imported."""
    settings = _from_environment()
    _settings.kinds, _settings.trace, _settings.timer = settings.kinds, settings.trace, settings.timer


def trace_by_default(trace: bool | None, timer: bool | None) -> tuple[bool, bool]:
    """Return whether to record and to time: what was requested, else what ``OPENINFER_TRACE`` says."""
    return _settings.trace if trace is None else trace, _settings.timer if timer is None else timer


def is_wanted(kind: LogKind) -> bool:
    """Return whether messages of a kind are written."""
    return kind in _settings.kinds


def log(kind: LogKind, message: str) -> None:
    """Write a message, control characters as escapes, if its kind is wanted; CRITICAL always is."""
    if not is_wanted(kind):
        return
    erase()
    stream = sys.stderr
    on, off = (f"\x1b[{kind.value}m", "\x1b[0m") if stream.isatty() and not os.environ.get("NO_COLOR") else ("", "")
    stream.write(f"{datetime.now(UTC):%H:%M:%S} {on}[{kind.name}]{off} -- {printable(message)}\n")
