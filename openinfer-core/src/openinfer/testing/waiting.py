"""How long tests wait: time limits that grow with the load of the machine, and interrupts that arrive anywhere.

``OPENINFER_TEST_PATIENCE`` multiplies every limit, for machines that are slow in ways that cannot be measured here.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

PATIENCE = "OPENINFER_TEST_PATIENCE"

_SAMPLE_S = 0.02
"""Processor time of one measurement."""

_FRESH_S = 10.0
"""How long a measurement counts."""

_MARGIN = 3.0
"""What the load may grow by between its measurement and the end of a wait."""

_measured: tuple[float, float] = (-_FRESH_S, 1.0)
_lock = threading.Lock()


def limit_s(seconds: float) -> float:
    """Return how long to wait for what takes at most ``seconds`` on an idle machine; it ends tests that hang."""
    return seconds * _patience() * slowness()


def slowness() -> float:
    """Return how many times longer than on an idle machine a thread of this process takes now: 1 where it is idle."""
    global _measured
    with _lock:
        when, found = _measured
        if time.monotonic() - when > _FRESH_S:
            stretch = max(_stretch(), _queue())
            found = 1.0 if stretch < 1.5 else stretch * _MARGIN
            _measured = (time.monotonic(), found)
    return found


def _stretch() -> float:
    """Return the ratio of wall time to processor time of a busy loop: other processes have the rest."""
    begun, used = time.monotonic(), time.thread_time()
    while (spent := time.thread_time() - used) < _SAMPLE_S:
        pass
    return (time.monotonic() - begun) / spent


def _queue() -> float:
    """Return how many processes there are for each processor, on average over the last minute."""
    return os.getloadavg()[0] / (os.cpu_count() or 1) if hasattr(os, "getloadavg") else 1.0


def _patience() -> float:
    return float(os.environ.get(PATIENCE, "1"))


@contextmanager
def interruptible() -> Generator[None]:
    """Let SIGINT raise `KeyboardInterrupt` here, and end processes that are started meanwhile.

    Shells start background processes with SIGINT ignored, which Python and its child processes keep. For the main
    thread.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
