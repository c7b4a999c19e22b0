"""What is allowed of a value follows from the roundings on its way, against sums done by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

import openinfer as oi
from openinfer.importers.expected_errors import MARGIN, QUANTISED_MARGIN, Error, expected_errors
from openinfer.plugins.environment import Environment
from openinfer.tolerances import EXACT, OF_OUTPUTS, Tolerance
from openinfer.validate import resolve

HALF_EPSILON = {"f16": 2.0**-11, "bf16": 2.0**-8}
EPSILON = 2.0**-23


def tolerance_of(dtype: str, statements: str, name: str = "y") -> Tolerance:
    """Return what is allowed of a variable of a program on `x`, a matrix of the type, and a square weight `w`."""
    text = f"dynamic {{ x: {dtype}[8, 8]; }} volatile {{ w: {dtype}[8, 8]; s: f32; b: f32[8, 8]; }}"
    graph = oi.graph(f"{text} block entry {{ {statements} return {name}; }}")
    arrays = {"w": np.zeros((8, 8), np.float32), "s": np.float32(0.1), "b": np.zeros((8, 8), np.float32)}
    model = oi.Model.from_arrays({**arrays, "w": arrays["w"].astype({"f16": "f2", "f64": "f8"}.get(dtype, "f4"))})
    program = resolve(graph, model)
    errors = expected_errors(program, Environment.default())
    return errors.get(name, Error()).tolerance(program.variables[name].type.dtype)


def test_what_moves_values_or_rounds_once_has_the_least_tolerance() -> None:
    moved = "op transpose(x, perm=[1, 0]) >> t; op add(t, w) >> y;"
    assert tolerance_of("f32", moved) == OF_OUTPUTS["f32"]
    assert tolerance_of("f64", moved) == OF_OUTPUTS["f64"]


@pytest.mark.parametrize("layers", [1, 4, 25])
def test_roundings_of_halves_add_up_by_their_squares(layers: int) -> None:
    statements = " ".join(
        f"op matmul({'x' if number == 0 else f't{number - 1}'}, w) >> {'y' if number == layers - 1 else f't{number}'};"
        for number in range(layers)
    )
    each = 64 * EPSILON + HALF_EPSILON["f16"]
    found = tolerance_of("f16", statements)
    assert found.relative == pytest.approx(max(2e-3, MARGIN * math.sqrt(layers) * each))
    assert found.absolute == OF_OUTPUTS["f16"].absolute


def test_iterations_of_a_loop_add_up_too() -> None:
    once = tolerance_of("f32", "op matmul(x, w) >> y;").relative
    looped = "op matmul(x, w) >> y; loop l (i in 0..99) { op matmul(y, w) >> y; }"
    assert tolerance_of("f32", looped).relative == pytest.approx(once * 10)


def test_branches_that_join_have_the_error_of_the_worse() -> None:
    joined = "op matmul(x, w) >> a; op matmul(a, w) >> b2; op add(a, b2) >> y;"
    straight = "op matmul(x, w) >> a; op matmul(a, w) >> y;"
    assert tolerance_of("f32", joined) == tolerance_of("f32", straight)


QUANTISED = "op matmul(x, w) >> t; assign q: i8[8, 8]; op quantize_linear(t, s) >> q; "


def test_a_value_that_was_rounded_to_an_integer_may_be_a_step_off() -> None:
    assert tolerance_of("f32", QUANTISED, "q") == Tolerance(1, 0.0)
    once = tolerance_of("f32", QUANTISED + "assign y: f32[8, 8]; op dequantize_linear(q, s) >> y;")
    assert once.relative == pytest.approx(MARGIN * 64 * EPSILON + QUANTISED_MARGIN / 127, rel=1e-2)


@pytest.mark.parametrize("statement", ["op argmax(t, axis=-1) >> y;", "op gt(t, b) >> y;"])
def test_places_and_comparisons_are_to_be_equal(statement: str) -> None:
    assert tolerance_of("f32", f"op matmul(x, w) >> t; {statement}") == EXACT


def test_integers_that_no_float_decides_are_to_be_equal() -> None:
    graph = oi.graph("dynamic { x: i8[4]; } block entry { op abs(x) >> a; op add(a, x) >> y; return y; }")
    program = resolve(graph, oi.Model.from_arrays({}))
    errors = expected_errors(program, Environment.default())
    assert errors["y"].tolerance(program.variables["y"].type.dtype) == EXACT
