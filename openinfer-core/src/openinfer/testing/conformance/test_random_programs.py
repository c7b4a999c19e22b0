"""Random whole programs, as many as ``--openinfer-random`` says, against what device cpu makes of them."""

from __future__ import annotations

import pytest

from openinfer.errors import OpenInferError
from openinfer.plugins.environment import Environment
from openinfer.testing.random_programs.checking import random_sample, wrong_on_device, wrong_on_target
from openinfer.testing.random_programs.refusals import ProgramRefusedError


def test_a_random_program_computes_what_cpu_does(
    openinfer_random: tuple[str, str, int, int], pytestconfig: pytest.Config
) -> None:
    kind, place, seed, number = openinfer_random
    environment = Environment.default()
    sample = random_sample(seed, number, environment)
    wrong = wrong_on_target if kind == "target" else wrong_on_device
    try:
        lines = wrong(sample, place, environment, gpu=bool(pytestconfig.getoption("--openinfer-gpu")))
    except ProgramRefusedError as error:
        pytest.skip(f"{kind} {place}: {error}")
    except OpenInferError as error:
        lines = [f"{type(error).__name__}: {error}"]
    if lines:
        pytest.fail("\n".join([f"{kind} {place}:", *lines, "", sample.text()]))
