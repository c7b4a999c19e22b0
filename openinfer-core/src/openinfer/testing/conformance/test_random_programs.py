"""Random whole programs, as many as ``--openinfer-random`` says, against what device cpu makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from openinfer.errors import FeatureMissingError, OpenInferError
from openinfer.plugins.environment import Environment
from openinfer.testing.checks import MISSING
from openinfer.testing.random_programs.checking import random_sample, wrong_on_device, wrong_on_target

if TYPE_CHECKING:
    from openinfer.testing.random_programs.sample import Sample

REFUSED = frozenset({MISSING, "unsupported", "size-limit", "no-outputs", "branch-cycle", "cache-limit"})
"""Codes of errors of programs that a place may refuse: programs are drawn by the rules of the language, not its."""

ILL_SHAPED = frozenset({"shape-mismatch", "bad-dim"})
"""Codes of errors of targets, which plan for the greatest sizes, where shapes are legal for smaller ones only."""


def wrong(kind: str, place: str, sample: Sample, environment: Environment) -> list[str]:
    """Return what is wrong with a program in a place."""
    return (wrong_on_target if kind == "target" else wrong_on_device)(sample, place, environment)


def test_a_random_program_computes_what_cpu_does(openinfer_random: tuple[str, str, int, int]) -> None:
    kind, place, seed, number = openinfer_random
    environment = Environment.default()
    sample = random_sample(seed, number, environment)
    try:
        lines = wrong(kind, place, sample, environment)
    except OpenInferError as error:
        is_refused = isinstance(error, FeatureMissingError) or error.code in REFUSED
        if is_refused or (error.code in ILL_SHAPED and not sample.fits_at_limits(environment)):
            pytest.skip(f"{kind} {place}: {error}")
        lines = [f"{type(error).__name__}: {error}"]
    if lines:
        pytest.fail("\n".join([f"{kind} {place}:", *lines, "", sample.text()]))
