"""Loop programs for devices of many threads: who does what, and that the results are those of the stages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from openinfer.array_types import storage_dtype
from openinfer.compute.evaluate import evaluate
from openinfer.compute.reading import parse_computation
from openinfer.compute.stage import expressions_of
from openinfer.expr.elementary import ELEMENTARY
from openinfer.expr.linear import linearise
from openinfer.loops import verify
from openinfer.loops.interpret import StepFailedError, interpret
from openinfer.loops.text import kernel_text
from openinfer.lower import FIRST, in_runs, threaded
from openinfer.ops import Compute
from openinfer.ops.computations import computation_of
from openinfer.plugins.environment import Environment
from openinfer.testing.cases import cases
from openinfer.testing.orders import RUNNING, UPDATED

if TYPE_CHECKING:
    from openinfer.compute import Computation
    from openinfer.loops import Value

    Array = np.ndarray[Any, Any]

ENVIRONMENT = Environment.default()
COMPUTED = sorted(name for name, schema in ENVIRONMENT.ops.items() if isinstance(schema.definition, Compute))
LARGEST = 2000
"""Most elements of a case that the interpreter, which goes one by one, is tried with."""

SCALED = """
def scaled(x: f32[2, 5], s: f32[2], /, y: f32[2, 5]):
    for i, j in grid(2, 5):
        y[i, j] = x[i, j] * s[i]
"""
PRODUCT = """
def product(a: f32[3, 4], b: f32[4, 5], /, y: f32[3, 5]):
    for i, j in grid(3, 5):
        for k in unordered(4):
            total0 = start(0.0)
            term0 = a[i, k] * b[k, j]
            total0 = total0 + term0
        y[i, j] = total0
"""
PLANES = """
def planes(x: f32[2, 4, 3], w: f32[3, 4], /, y: f32[2]):
    for i in grid(2):
        for j, k in unordered(4, 3):
            total0 = start(0.0)
            term0 = x[i, j, k] * w[k, j]
            total0 = total0 + term0
        y[i] = total0
"""


def run(computation: Computation, *inputs: Array, busy: int | None = None) -> list[Array]:
    arrays = {t.name: array.reshape(-1) for t, array in zip(computation.inputs, inputs, strict=True)}
    shapes = {t.name: [e.evaluate({}) for e in t.shape] for t in (*computation.outputs, *computation.temporaries)}
    for tensor in (*computation.outputs, *computation.temporaries):
        arrays[tensor.name] = np.zeros(int(np.prod(shapes[tensor.name])), storage_dtype(tensor.dtype))
    for kernel in threaded(computation, busy=busy):
        verify(kernel)
        interpret(kernel, arrays)
    return [arrays[tensor.name].reshape(shapes[tensor.name]) for tensor in computation.outputs]


def has_formula(computation: Computation) -> bool:
    """Whether a function that loop programs compute by a formula occurs."""
    values = (expr for stage in computation.stages for expr in expressions_of(stage))
    return any(step.function in ELEMENTARY for expr in values for step in linearise(expr).instructions)


def no_turns(value: Value) -> int:
    """The functions of these programs have no loops."""
    return 0


def texts(text: str) -> str:
    return "\n".join(kernel_text(kernel) for kernel in threaded(parse_computation(text)))


def test_each_place_is_done_by_a_thread_of_its_own() -> None:
    assert (
        texts(SCALED)
        == """\
def scaled(x: GLOBAL[f32, 10], s: GLOBAL[f32, 2], y: GLOBAL[f32, 10]):
    for i in GROUP(2):
        for j in GROUP(5):
            y[5*i + j] = x[5*i + j] * s[i]
"""
    )


def test_places_of_several_axes_that_are_in_a_row_are_one_axis() -> None:
    assert "for i in GROUP(10):\n        y[i] = x[i] * x[i]" in texts(SCALED.replace("s[i]", "x[i, j]"))


def test_terms_are_added_by_the_thread_of_their_total() -> None:
    assert (
        texts(PRODUCT)
        == """\
def product(a: GLOBAL[f32, 12], b: GLOBAL[f32, 20], y: GLOBAL[f32, 15]):
    for i in GROUP(3):
        for j in GROUP(5):
            total0: f32 = 0.0
            for k in SERIAL(4):
                total0 = total0 + a[4*i + k] * b[j + 5*k]
            y[5*i + j] = total0
"""
    )


def product(m: int, k: int, n: int) -> str:
    return f"""
def product(a: f32[{m}, {k}], b: f32[{k}, {n}], /, y: f32[{m}, {n}]):
    for i, j in grid({m}, {n}):
        for k in unordered({k}):
            total0 = start(0.0)
            term0 = a[i, k] * b[k, j]
            total0 = total0 + term0
        y[i, j] = total0
"""


BATCHED = """
def batched(a: f32[2, 8, 20], b: f32[2, 12, 20], c: f32[12], /, y: f32[2, 8, 12]):
    for n, i, j in grid(2, 8, 12):
        for k in unordered(20):
            total0 = start(0.0)
            term0 = a[n, i, k] * b[n, j, k]
            total0 = total0 + term0
        y[n, i, j] = maximum(total0 + c[j], 0.0)
"""
WINDOWS = """
def windows(x: i32[3, 9, 10], w: i32[4, 3, 2, 3], /, y: i32[4, 8, 8]):
    for o, i, j in grid(4, 8, 8):
        for c, p, q in sequential(3, 2, 3):
            total0 = start(i32(0))
            term0 = x[c, i + p, j + q] * w[o, c, p, q]
            total0 = total0 + term0
        y[o, i, j] = total0
"""


@pytest.mark.parametrize(
    ("text", "totals", "groups"),
    [
        (product(8, 16, 12), 16, 2 * 3),
        (product(6, 16, 12), 8, 3 * 3),
        (BATCHED, 16, 2 * 2 * 3),
        (WINDOWS, 16, 8 * 2),
    ],
    ids=["product", "two rows", "batched", "windows"],
)
def test_a_thread_computes_a_tile_of_results_with_the_bits_of_single_ones(text: str, totals: int, groups: int) -> None:
    computation, rng = parse_computation(text), np.random.default_rng(4)
    (kernel,) = threaded(computation, busy=1)
    shapes = [[e.evaluate({}) for e in t.shape] for t in computation.inputs]
    given = [rng.normal(0, 9, shape).astype(storage_dtype(computation.inputs[0].dtype)) for shape in shapes]

    (found,), (expected,) = run(computation, *given, busy=1), run(computation, *given)

    printed = kernel_text(kernel)
    assert printed.count(": f32 = 0.0") + printed.count(": i32 = i32(0)") == totals
    assert np.prod([int(n) for n in re.findall(r"in GROUP\((\d+)\)", printed)]) == groups
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    "text",
    [
        PRODUCT,
        product(8, 16, 7),
        RUNNING,
        SCALED,
        PLANES,
        product(8, 16, 12).replace("a[i, k]", "b[k, j]"),
    ],
    ids=["few terms", "uneven", "scan", "no sum", "one axis", "nothing shared"],
)
def test_other_stages_have_a_thread_for_each_place(text: str) -> None:
    computation = parse_computation(text)

    (found,), (plain,) = (threaded(computation, busy=busy) for busy in (1, None))

    # Windows may be written out.
    assert kernel_text(found).replace("UNROLL", "SERIAL") == kernel_text(plain)


def test_tiles_leave_enough_threads_to_keep_a_device_busy() -> None:
    computation = parse_computation(product(8, 16, 12))

    totals = [kernel_text(*threaded(computation, busy=busy)).count(": f32 = 0.0") for busy in (6, 7, 12, 13, 24, 25)]

    assert totals == [16, 8, 8, 4, 4, 1]


def test_updates_that_may_meet_are_made_in_their_order_by_one_thread() -> None:
    assert (
        texts(UPDATED).partition("\n\n")[2]
        == """\
def updated_1(p: GLOBAL[i64, 6], u: GLOBAL[i32, 18], y: GLOBAL[i32, 12]):
    for j in GROUP(3):
        for i in SERIAL(6):
            q_value0: i64 = p[i]
            fail(logical_or(lt(q_value0, i64(0)), ge(q_value0, number(4, i64))), 'places are 0 to 3')
            q: index[4] = q_value0
            y[j + 3*q] = y[j + 3*q] + u[3*i + j]
"""
    )


def test_a_stage_without_places_needs_no_loop_program() -> None:
    assert threaded(parse_computation(SCALED.replace("[2", "[0").replace("(2", "(0"))) == ()


@pytest.mark.parametrize("name", COMPUTED)
def test_results_are_those_of_the_stages(name: str) -> None:
    schema = ENVIRONMENT.op(name)
    types = [ENVIRONMENT.dtypes[dtype] for dtype in ("f32", "i64", "u8") if dtype in schema.dtypes]
    found = [case for dtype in types for case in cases(schema, dtype, ENVIRONMENT.dtypes)]
    for case in [case for case in found if sum(out.count for out in case.call.outputs) <= LARGEST][:8]:
        computation = computation_of(schema, case.call)
        given = [array for array in case.inputs() if array is not None]
        # Loop programs have formulas for some functions, which round otherwise than NumPy.
        near = {"rtol": 1e-5, "atol": 1e-6} if has_formula(computation) else {"rtol": 0, "atol": 0}
        for want, got in zip(evaluate(computation, given), run(computation, *given), strict=True):
            np.testing.assert_allclose(got, want, err_msg=str(case), **near)


@pytest.mark.parametrize("text", [PRODUCT, RUNNING])
def test_folds_and_scans_have_the_bits_of_the_stages(text: str) -> None:
    computation = parse_computation(text)
    rng = np.random.default_rng(3)
    shapes = [[e.evaluate({}) for e in t.shape] for t in computation.inputs]
    given = [rng.integers(-9, 9, shape).astype(storage_dtype(computation.inputs[0].dtype)) for shape in shapes]

    (found,), (expected,) = run(computation, *given), evaluate(computation, given)

    assert found.tobytes() == expected.tobytes()


def test_updates_have_the_bits_of_the_stages_and_refuse_what_they_refuse() -> None:
    computation = parse_computation(UPDATED)
    x, u = np.arange(12, dtype=np.int32).reshape(4, 3), np.arange(18, dtype=np.int32).reshape(6, 3)
    places = np.array([3, 0, 3, 1, 0, 3])

    (found,), (expected,) = run(computation, x, places, u), evaluate(computation, [x, places, u])

    assert found.tolist() == expected.tolist()
    with pytest.raises(StepFailedError, match="places are 0 to 3"):
        run(computation, x, places + 1, u)


@pytest.mark.parametrize("most", [5, 7, 100])
@pytest.mark.parametrize("text", [PRODUCT.replace("4", "11"), RUNNING.replace("4", "11")])
def test_runs_of_a_loop_program_do_what_it_does_at_once(text: str, most: int) -> None:
    computation = parse_computation(text)
    (kernel,), rng = threaded(computation), np.random.default_rng(3)
    shapes = [[e.evaluate({}) for e in t.shape] for t in computation.inputs]
    given = [rng.integers(-9, 9, shape).astype(storage_dtype(computation.inputs[0].dtype)) for shape in shapes]
    (expected,) = run(computation, *given)

    runs = in_runs(kernel, most, no_turns)

    assert runs is not None
    verify(runs.kernel)
    assert len(runs.starts) == {5: 3, 7: 2, 100: 1}[most]
    arrays = {t.name: array.reshape(-1) for t, array in zip(computation.inputs, given, strict=True)}
    arrays |= {b.name: np.zeros(b.size.evaluate({}), storage_dtype(b.dtype)) for b in runs.scratch}
    arrays[computation.outputs[0].name] = np.zeros(expected.size, expected.dtype)
    for start in runs.starts:
        interpret(runs.kernel, arrays, {FIRST.name: start})
    assert arrays[computation.outputs[0].name].tobytes() == expected.tobytes()


def test_loops_that_fill_one_another_are_divided_as_one() -> None:
    (kernel,) = threaded(parse_computation(PLANES))

    runs = in_runs(kernel, 6, no_turns)

    assert runs is not None
    verify(runs.kernel)
    assert runs.starts == (0, 5, 10)
    assert """\
        for step in SERIAL(5):
            if 0 <= first + step < 12:
                j: index[4] = number((first + step)//3, i64)
                k: index[3] = number((first + step)%3, i64)
                total0 = total0 + x[12*i + 3*j + k] * w[j + 4*k]
""" in kernel_text(runs.kernel)


def test_the_text_of_a_loop_program_in_runs() -> None:
    (kernel,) = threaded(parse_computation(PRODUCT))

    runs = in_runs(kernel, 4, no_turns)

    assert runs is not None
    assert runs.starts == (0, 3)
    assert (
        kernel_text(runs.kernel)
        == """\
def product(a: GLOBAL[f32, 12], b: GLOBAL[f32, 20], y: GLOBAL[f32, 15], kept_total0: GLOBAL[f32, 15], *, first):
    for i in GROUP(3):
        for j in GROUP(5):
            total0: f32 = 0.0
            if 0 <= first - 1 < 4:
                total0 = kept_total0[5*i + j]
            for k in SERIAL(3):
                if 0 <= first + k < 4:
                    total0 = total0 + a[first + 4*i + k] * b[5*first + j + 5*k]
            kept_total0[5*i + j] = total0
            if 0 <= first - 1 < 3:
                y[5*i + j] = total0
"""
    )
    assert in_runs(kernel, 1, no_turns) is None
