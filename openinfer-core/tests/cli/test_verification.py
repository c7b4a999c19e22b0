"""How often a synthesised program is run to time it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from openinfer.cli import verification
from openinfer.cli.verification import LONGEST_TIMING, MOST_RUNS, verify
from openinfer.synth.target import RunResult

OUTPUT = SimpleNamespace(name="y", type=SimpleNamespace(dtype=SimpleNamespace(name="f32")))
STEPS = 2


class Program:
    """A program that needs the same time for each step, and ends as soon as it has to be stopped."""

    plan = SimpleNamespace(outputs=[OUTPUT], states=[])

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.repeats: list[int] = []

    def run(self, _: Any, *, steps: int, repeat: int, timeout: float, **__: Any) -> RunResult:
        runs = repeat + 1 if repeat > 1 else 1
        assert runs * steps * self.seconds <= timeout
        self.repeats.append(repeat)
        return RunResult({"y": np.zeros((steps, 1), np.float32)}, self.seconds * 1e6)


@pytest.mark.parametrize("special", [None, {}])
@pytest.mark.parametrize("seconds", [1e-6, 0.05, 0.2, 1.0, 20.0, float("nan")])
def test_repeats_follow_from_the_time_of_the_first_run(
    seconds: float, special: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verification, "_simulated", lambda *_: {"y": [np.zeros(1, np.float32)] * STEPS})
    program = Program(0.0 if np.isnan(seconds) else seconds)
    checked = verify(program, None, [{}, {}], special=special, steps=STEPS)
    first, *timed = program.repeats
    assert (first, len(timed), len(set(timed))) == (1, 2, 1)
    assert checked.repeat == timed[0] <= MOST_RUNS
    assert timed[0] == 1 or (timed[0] + 1) * STEPS * seconds <= LONGEST_TIMING
    if seconds == 1e-6:
        assert timed[0] == MOST_RUNS
