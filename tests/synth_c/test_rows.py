"""Softmax, norms and attention row by row: what is joined, what memory is left, and what comes out of generated C."""

from __future__ import annotations

import shutil

import numpy as np
import numpy.typing as npt
import pytest

import openinfer as oi
from openinfer.compute.reading import parse_computation
from openinfer.plan.rows import row_axes
from openinfer.plan.steps import ComputeStep
from openinfer.synth import Synthesis, Synthesizer

Array = npt.NDArray[np.float32]

LONG, WIDE = 512, 640
"""Rows of an image that no cache next to a core holds, and their length."""

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")


def synthesis(declared: str, statements: str, result: str) -> Synthesis:
    text = f"dynamic {{ {declared} }} volatile {{ y: {result}; }} block entry {{ {statements} return y; }}"
    return Synthesizer("c", arch="x86-64-v3").synthesize(oi.Model.from_arrays({}), oi.graph(text))


def steps_of(made: Synthesis) -> list[ComputeStep]:
    return [step for p in made.plan.procedures for step in p.steps if isinstance(step, ComputeStep)]


def normal(*shape: int) -> Array:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def soft(x: Array) -> npt.NDArray[np.float64]:
    powers = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def standardised(x: Array) -> npt.NDArray[np.float64]:
    centred = x.astype(np.float64) - x.mean(-1, dtype=np.float64, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)


IMAGE = f"x: f32[{LONG}, {WIDE}];"


@needs_compiler
@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("op softmax(x) >> y;", soft),
        ("op layer_norm(x) >> y;", standardised),
        ("op rms_norm(x, eps=0.0) >> y;", lambda x: x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True))),
        ("op log_softmax(x) >> y;", lambda x: np.log(soft(x))),
    ],
    ids=["softmax", "layer_norm", "rms_norm", "log_softmax"],
)
def test_an_operator_on_rows_is_one_step_with_room_for_few_rows(statement, expected) -> None:
    made = synthesis(IMAGE, statement, f"f32[{LONG}, {WIDE}]")
    x = normal(LONG, WIDE)

    (step,) = steps_of(made)
    assert [loop.axis.extent for loop in step.arrangement.fusion] == [LONG]
    assert made.plan.arena_nbytes <= 4 * 4 * WIDE
    np.testing.assert_allclose(made.run({"x": x}).outputs["y"], expected(x), rtol=2e-5, atol=2e-6)


@needs_compiler
def test_expressions_before_and_after_a_norm_are_computed_row_by_row_too() -> None:
    made = synthesis(IMAGE, "op exp(x) >> a; op layer_norm(a) >> b; op mul(b, x) >> y;", f"f32[{LONG}, {WIDE}]")
    x = normal(LONG, WIDE)

    assert len(steps_of(made)) == 1
    assert made.plan.arena_nbytes <= 4 * 3 * WIDE
    np.testing.assert_allclose(made.run({"x": x}).outputs["y"], standardised(np.exp(x)) * x, rtol=5e-5, atol=5e-6)


@needs_compiler
@pytest.mark.parametrize("causal", ["true", "false"])
def test_scores_of_attention_exist_for_a_few_queries_at_a_time(causal: str) -> None:
    shape = "f32[1, 4, 128, 32]"
    made = synthesis(f"q: {shape}; k: {shape}; v: {shape};", f"op sdpa(q, k, v, causal={causal}) >> y;", shape)
    q, k, v = (normal(3, 1, 4, 128, 32)[place] for place in range(3))

    (step,) = steps_of(made)
    assert step.arrangement.fusion
    assert made.plan.arena_nbytes < 4 * 4 * 128 * 128
    scores = (q @ np.swapaxes(k, -1, -2) / np.sqrt(32)).astype(np.float32)
    if causal == "true":
        scores = np.where(np.tri(128, dtype=bool), scores, -np.inf).astype(np.float32)
    np.testing.assert_allclose(made.run({"q": q, "k": k, "v": v}).outputs["y"], soft(scores) @ v, rtol=2e-5, atol=2e-6)


@needs_compiler
def test_a_query_without_keys_yields_zero_and_a_score_of_nan_yields_nan() -> None:
    made = synthesis(
        "q: f32[1, 1, 3, 2]; k: f32[1, 1, 3, 2]; v: f32[1, 1, 3, 2]; m: bool[3, 3];",
        "op sdpa(q, k, v, m) >> y;",
        "f32[1, 1, 3, 2]",
    )
    q, k, v = (np.ones((1, 1, 3, 2), np.float32) for _ in range(3))
    q[0, 0, 2] = np.nan
    mask = np.array([[True, False, True], [False, False, False], [False, True, False]])

    found = made.run({"q": q, "k": k, "v": v, "m": mask}).outputs["y"][0, 0]

    np.testing.assert_array_equal(found, [[1, 1], [0, 0], [np.nan, np.nan]])


@needs_compiler
@pytest.mark.parametrize(
    ("equation", "expected"),
    [("ij,jk->ik", lambda s: s @ s), ("ij,kj->ik", lambda s: s @ s.T), ("ij,ji->ij", lambda s: s * s.T)],
    ids=["product with itself", "product with its transpose", "elementwise with its transpose"],
)
def test_a_result_that_is_read_in_rows_and_as_a_whole_is_stored(equation, expected) -> None:
    wide = "f32[256, 256]"
    made = synthesis(
        f"x: {wide};", f'assign s: {wide}; op softmax(x) >> s; op einsum(s, s, equation="{equation}") >> y;', wide
    )
    x = normal(256, 256)

    assert len(steps_of(made)) == 2
    np.testing.assert_allclose(made.run({"x": x}).outputs["y"], expected(soft(x)), rtol=2e-5, atol=2e-6)


def test_what_the_first_cache_holds_stays_apart() -> None:
    made = synthesis("x: f32[4, 16];", "op layer_norm(x) >> y;", "f32[4, 16]")

    assert not any(step.arrangement.fusion for step in steps_of(made))


def test_an_intermediate_result_that_is_returned_is_stored() -> None:
    text = (
        f"dynamic {{ {IMAGE} }} volatile {{ t: f32[{LONG}, 1]; y: f32[{LONG}, {WIDE}]; }}"
        "block entry { op mean_axis(x, axes=1, keepdims=true) >> t; op sub(x, t) >> y; return t, y; }"
    )
    made = Synthesizer("c", arch="x86-64-v3").synthesize(oi.Model.from_arrays({}), oi.graph(text))

    assert not any(step.arrangement.fusion for step in steps_of(made))


def test_rows_are_axes_along_which_every_stage_computes_one_place() -> None:
    computation = parse_computation("""
def f(x: f32[2, 3, 5, 7], /, y: f32[2, 3, 5, 7]):
    t: f32[2, 3, 7]
    for n, i, j in grid(2, 3, 7):
        for r in unordered(5):
            total0 = start(0.0)
            term0 = x[n, i, r, j]
            total0 = total0 + term0
        t[n, i, j] = total0
    for a, b, c, d in grid(2, 3, 5, 7):
        y[a, b, c, d] = x[a, b, c, d] * t[a, b, d]
""")
    assert {axis.name: [other.name for other in along] for axis, along in row_axes(computation).items()} == {
        "a": ["n", "a"],
        "b": ["i", "b"],
        "d": ["j", "d"],
    }
