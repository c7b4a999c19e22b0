"""Processes that tests wait for."""

from __future__ import annotations

import time
from pathlib import Path


def until_ended(processes: list[int], seconds: float) -> list[int]:
    """Wait for the end of processes; return those that have not ended by then."""
    deadline = time.monotonic() + seconds
    while (left := [pid for pid in processes if Path(f"/proc/{pid}").exists()]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left
