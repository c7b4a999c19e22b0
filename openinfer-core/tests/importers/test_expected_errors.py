"""What is allowed of a value follows from the roundings on its way, against sums done by hand."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

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


@pytest.mark.parametrize("turns", [1, 2, 7, 8, 9, 31, 1000])
@pytest.mark.parametrize("body", ["op matmul(y, w) >> y;", "op matmul(y, w) >> a; op matmul(a, w) >> y;"])
def test_iterations_that_are_not_followed_are_extrapolated(turns: int, body: str) -> None:
    looped = tolerance_of("f32", f"op add(x, x) >> y; loop l (i in 0..{turns}) {{ {body} }}").relative
    products = turns * body.count("matmul")
    assert looped == pytest.approx(MARGIN * math.sqrt(products * (64 * EPSILON) ** 2), rel=0.01)


def test_iterations_of_nested_loops_multiply() -> None:
    loops = "loop l (i in 0..20) { loop m (j in 0..30) { loop n (k in 0..40) {"
    nested = f"op matmul(x, w) >> y; {loops} op matmul(y, w) >> y; }} }} }}"
    assert tolerance_of("f32", nested).relative == pytest.approx(MARGIN * math.sqrt(24_001) * 64 * EPSILON, rel=0.01)


def test_what_an_iteration_computes_anew_does_not_add_up() -> None:
    once = tolerance_of("f32", "op matmul(x, w) >> y;")
    anew = "loop l (i in 0..500) { loop m (j in 0..500) { op matmul(x, w) >> y; } }"
    assert tolerance_of("f32", anew) == once


def test_variables_that_iterations_swap_grow_alike() -> None:
    body = "op matmul(y, w) >> t; transfer a >> y; transfer t >> a;"
    swapped = f"op matmul(x, w) >> y; op add(x, x) >> a; loop l (i in 0..99) {{ {body} }}"
    assert tolerance_of("f32", swapped).relative == pytest.approx(MARGIN * math.sqrt(51) * 64 * EPSILON, rel=0.05)


NESTED = "loop l (i in 0..1000) { loop m (j in 0..1000) { op matmul(y, w) >> y; } } "
BLOCKS = "block p { op matmul(y, w) >> y; } block q { op add(y, y) >> y; }"


def of_nests(count: int) -> str:
    loops = "".join(f"loop l{number} (i{number} in 0..1000) {{ " for number in range(count))
    return f"block entry {{ {loops} op matmul(y, w) >> y; {'}' * count} return y; }}"


def of_calls(count: int) -> str:
    calls = "".join(f"block b{n} {{ branch c b{n + 1} b{n + 1}; branch b{n + 1}; }} " for n in range(count))
    return f"block entry {{ branch b0; return y; }} {calls} block b{count} {{ op matmul(y, w) >> y; }}"


GROWING: dict[str, tuple[int, Callable[[int], str]]] = {
    "nested loops": (50, lambda n: f"block entry {{ {NESTED * n} return y; }}"),
    "loops in loops": (15, of_nests),
    "branches": (200, lambda n: f"block entry {{ {'branch c p q; ' * n} return y; }} {BLOCKS}"),
    "blocks that call the next one twice": (15, of_calls),
}


def seconds(count: int, blocks: Callable[[int], str]) -> float:
    head = "dynamic { c: bool; } volatile { w: f32[8, 8]; y: f32[8, 8]; }"
    program = resolve(oi.graph(f"{head} {blocks(count)}"), oi.Model.from_arrays({"w": np.zeros((8, 8), np.float32)}))
    start = time.process_time()
    expected_errors(program, Environment.default())
    return time.process_time() - start


@pytest.mark.parametrize("name", GROWING)
def test_time_grows_as_the_program(name: str) -> None:
    short, blocks = GROWING[name]
    # 4 is linear, 16 quadratic. Whatever else the machine does makes a measurement longer, never shorter.
    assert any(seconds(4 * short, blocks) / max(0.02, seconds(short, blocks)) < 12 for _ in range(5))


def test_blocks_that_call_themselves_are_followed_to_an_end() -> None:
    assert seconds(1, lambda _: "block entry { branch p; return y; } block p { branch c q p; } block q { }") < 60


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
