"""Every whole program, its steps one after the other, against what NumPy computes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from openinfer.errors import FeatureMissingError, OpenInferError
from openinfer.plugins.environment import Environment
from openinfer.testing.checks import MISSING
from openinfer.testing.stepping import wrong_on_device, wrong_on_target
from openinfer.testing.whole_programs import whole_programs

if TYPE_CHECKING:
    from openinfer.testing.whole_programs import WholeProgram

UNSUPPORTED = frozenset({MISSING, "unsupported", "size-limit"})
"""Codes of errors of a program with something that the place does not support."""


def wrong(kind: str, place: str, program: WholeProgram) -> list[str]:
    """Return what is wrong with a program in a place, which has to run all of it itself."""
    environment = Environment.default()
    if kind == "target":
        return wrong_on_target(program, place, environment)
    alone = replace(environment.device(place), fallback=None)
    return wrong_on_device(program, place, replace(environment, devices={**environment.devices, place: alone}))


def test_a_whole_program_computes_what_numpy_does(
    openinfer_program: tuple[str, str, str], request: pytest.FixtureRequest
) -> None:
    kind, place, name = openinfer_program
    (program,) = (program for program in whole_programs() if program.name == name)
    if kind == "target" and program.has_state and not program.is_stackable:
        pytest.skip("a target runs steps of one shape: only devices keep state through steps of several")
    try:
        lines = wrong(kind, place, program)
    except OpenInferError as error:
        is_missing = isinstance(error, FeatureMissingError) or error.code in UNSUPPORTED
        if is_missing and request.config.getoption("--openinfer-allow-missing"):
            pytest.skip(f"{kind} {place}: {error}")
        pytest.fail(f"{kind} {place} does not run {name}: {type(error).__name__}: {error}")
    if lines:
        pytest.fail("\n".join(lines))
