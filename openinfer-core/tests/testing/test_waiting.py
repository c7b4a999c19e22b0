"""Time limits of tests grow with the load; interrupts reach processes whose shell ignores them."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from openinfer.testing import waiting
from openinfer.testing.waiting import interruptible, limit_s


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Stand-ins for the two measurements: the share of the processor, and processes for each of them."""
    found = [1.0, 0.0]
    monkeypatch.delenv(waiting.PATIENCE, raising=False)
    monkeypatch.setattr(waiting, "_FRESH_S", -1.0)
    monkeypatch.setattr(waiting, "_stretch", lambda: found[0])
    monkeypatch.setattr(waiting, "_queue", lambda: found[1])
    return found


@pytest.mark.parametrize(
    ("stretch", "queue", "least", "most"),
    [(1.0, 0.3, 60, 60), (1.2, 1.4, 60, 60), (40, 2, 2400, 9000), (1, 5, 300, 1200)],
)
def test_limits_grow_with_the_load(load: list[float], stretch: float, queue: float, least: float, most: float) -> None:
    load[:] = stretch, queue
    assert least <= limit_s(60) <= most


def test_limits_grow_with_patience(load: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(waiting.PATIENCE, "2.5")
    assert limit_s(4) == 10


def test_a_measurement_is_a_ratio_of_at_least_one() -> None:
    assert waiting._stretch() > 0.9
    assert limit_s(1) >= 1


CHILD = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"


def test_an_interrupt_is_raised_here_and_in_new_processes_whatever_was_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interruptible():
            started = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=True)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        assert started.stdout == "True\n"
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
