"""Compiled NumPy programs: buffers, aliasing, storage types, and what they refuse."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from openinfer.array_types import storage_dtype
from openinfer.dtypes import BF16, BITSET, BOOL, F8, F16, F32, F64, I4, I8, I32, I64, T1, T2, U2, U4, U8, DType
from openinfer.expr import Expr, linearise, substitute, tree
from openinfer.expr.numpy_renderer import bind_program, compile_program


def evaluated(expr: Expr, *inputs: Any, shape: tuple[int, ...] | None = None) -> np.ndarray[Any, Any]:
    """Return the value of an expression of inputs, in the shape that they broadcast to."""
    arrays = [np.asarray(value) for value in inputs]
    out = np.empty(
        np.broadcast_shapes(*(a.shape for a in arrays)) if shape is None else shape, storage_dtype(expr.dtype)
    )
    compile_program(linearise(expr))(arrays, out)
    return out


X, Y, Z = (tree.Input(index, F32) for index in range(3))


def test_inputs_broadcast_to_the_output() -> None:
    found = evaluated(tree.add(X, tree.mul(Y, Z)), np.float32([[1], [2]]), np.float32([1, 2, 3]), np.float32(10))

    assert found.tolist() == [[11, 21, 31], [12, 22, 32]]


def test_a_constant_fills_the_output() -> None:
    assert evaluated(tree.literal(2.5, F32), shape=(2, 2)).tolist() == [[2.5, 2.5], [2.5, 2.5]]


def test_an_input_alone_is_copied() -> None:
    assert evaluated(X, np.float32([1, 2]), shape=(3, 2)).tolist() == [[1, 2]] * 3


@pytest.mark.parametrize(
    "expr",
    [
        tree.add(X, X),
        tree.maximum(Y, X),
        tree.select(tree.lt(X, Y), Y, X),
        tree.sub(tree.mul(X, X), tree.mul(Y, X)),
        tree.erf(X),
        tree.cast(tree.cast(X, I32), F32),
    ],
)
def test_the_output_may_be_an_input(expr: Expr) -> None:
    x, y = np.float32([-1.5, 0.5, math.nan, 3.0]), np.float32([1.0, -2.0, 0.25, math.nan])
    expected = evaluated(expr, x, y)

    compile_program(linearise(expr))([x, y], x)

    np.testing.assert_array_equal(x, expected)


@pytest.mark.parametrize(
    "expr",
    [
        tree.add(tree.mul(X, X), Y),
        tree.maximum(Y, X),
        tree.select(tree.lt(X, Y), Y, X),
        tree.select(tree.lt(X, Y), tree.literal(0.0, F32), X),
        tree.select(tree.lt(X, Y), tree.literal(-0.0, F32), X),
    ],
)
def test_a_bound_program_reads_what_its_inputs_hold_when_it_runs(expr: Expr) -> None:
    x, y, out = np.float32([-1.5, 0.5, math.nan]), np.float32([0.25, -2.0, 3.0]), np.empty(3, np.float32)
    numbers = linearise(expr).inputs
    run = bind_program(linearise(expr), [x, y][: max(numbers) + 1], out, np.empty)
    for swapped in (False, True):
        x[:], y[:] = (y.copy(), x.copy()) if swapped else (x, y)
        run()
        expected = evaluated(expr, x, y)
        np.testing.assert_array_equal(out.view(np.int32), expected.view(np.int32))


def test_a_bound_program_may_write_to_its_input() -> None:
    expr = tree.add(tree.select(tree.lt(X, Y), Y, X), tree.erf(X))
    x, y = np.float32([-1.5, 0.5, math.nan]), np.float32([1.0, -2.0, 0.25])
    expected = evaluated(expr, x, y)

    bind_program(linearise(expr), [x, y], x, np.empty)()

    np.testing.assert_array_equal(x, expected)


def test_a_bound_program_computes_in_place_of_operands_that_are_read_no_more() -> None:
    taken: list[np.ndarray[Any, Any]] = []

    def take(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        taken.append(np.empty(shape, dtype))
        return taken[-1]

    expr = tree.exp(tree.neg(tree.mul(tree.add(X, Y), Y)))
    x, out = np.ones((2, 3), np.float32), np.empty((2, 3), np.float32)
    bind_program(linearise(expr), [x, x], out, take)()

    assert len(taken) == 1
    np.testing.assert_array_equal(out, np.exp(np.float32(-2)))


def test_steady_shapes_allocate_no_arrays() -> None:
    expr = tree.maximum(tree.exp(tree.neg(tree.absolute(X))), tree.cast(tree.cast(X, I32), F32))
    x, out = np.ones((256, 1024), np.float32), np.empty((256, 1024), np.float32)
    evaluate = compile_program(linearise(expr))
    evaluate([x], out)

    tracemalloc.start()
    for _ in range(5):
        evaluate([x], out)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < x.nbytes // 16


def test_other_shapes_get_other_buffers() -> None:
    evaluate = compile_program(linearise(tree.maximum(tree.neg(X), X)))
    for shape in ((4,), (2, 3), (4,), ()):
        x, out = np.full(shape, -2.0, np.float32), np.empty(shape, np.float32)
        evaluate([x], out)
        assert (out == 2.0).all()


def test_programs_of_any_depth_are_evaluated() -> None:
    expr: Expr = tree.Input(0, I32)
    for _ in range(20_000):
        expr = tree.add(expr, tree.literal(1, I32))

    assert evaluated(expr, np.int32([5])).item() == 20_005


def test_equal_subexpressions_are_computed_once() -> None:
    square = tree.mul(tree.add(X, Y), tree.add(X, Y))

    assert [step.function for step in linearise(square).instructions] == ["input", "input", "add", "mul"]


def test_fusing_by_substitution_keeps_the_meaning() -> None:
    fused = substitute(tree.mul(X, Y), {0: tree.add(X, Y), 1: tree.neg(Y)})

    assert evaluated(fused, np.float32([2]), np.float32([3])).item() == -15


@pytest.mark.parametrize(
    ("source", "target", "values", "expected"),
    [
        (F32, F8, [1.9, 61440.0, -1e-9, math.nan], [2.0, math.inf, -0.0, math.nan]),
        (F32, F16, [65520.0, 2.0**-25, 2.0**-24], [math.inf, 0.0, 2.0**-24]),
        (F64, BF16, [1.0 + 2.0**-8 + 2.0**-40], [1.0 + 2.0**-7]),  # f32 would round down to the tie
        (I64, BF16, [(1 << 62) + (1 << 54) + 1], [float((1 << 62) + (1 << 55))]),
        (I32, F16, [70000, 2049], [math.inf, 2048.0]),
        (F16, I8, [300.0, -0.5], [127, 0]),
        (BF16, BOOL, [0.0, math.nan], [False, True]),
        (BOOL, F8, [True], [1.0]),
        (F32, I4, [7.9, -8.9, 100.0, math.nan], [7, -8, 7, 0]),
        (F32, U2, [3.9, 4.0, -1.0], [3, 3, 0]),
        (I32, I4, [8, -9, 23], [-8, 7, 7]),
        (I64, U4, [16, -1, 9], [0, 15, 9]),
        (I4, I64, [-8, 7], [-8, 7]),
        (U8, BITSET, [200], [200]),
        (T1, I8, [-1, 1], [-1, 1]),
        (F32, T1, [-0.5, -1.0, 0.0, 300.0, -np.inf, np.nan], [1, -1, 1, 1, -1, 1]),
        (F32, T2, [-0.5, -1.0, 0.0, 300.0, -np.inf, np.nan], [0, -1, 0, 1, -1, 0]),
        (U8, T2, [0, 1, 2, 255], [0, 1, 1, 1]),
        (U4, T1, [0, 15], [1, 1]),
        (BITSET, T2, [0, 255], [0, 1]),
        (I64, T2, [-(2**63), 256, 0], [-1, 1, 0]),
        (T2, T1, [-1, 0, 1], [-1, 1, 1]),
    ],
)
def test_casts_of_storage_types(source: DType, target: DType, values: list[Any], expected: list[Any]) -> None:
    found = evaluated(tree.cast(tree.Input(0, source), target), np.array(values, storage_dtype(source)))

    assert found.dtype == storage_dtype(target)
    np.testing.assert_array_equal(found.astype(np.float64), np.float64(expected))


def test_storage_types() -> None:
    assert storage_dtype(F8) == np.dtype(ml_dtypes.float8_e5m2)
    assert storage_dtype(BF16) == np.dtype(ml_dtypes.bfloat16)
    assert storage_dtype(U4) == np.uint8
    assert storage_dtype(BITSET) == np.uint8


def test_only_casts_take_low_floats() -> None:
    with pytest.raises(tree.ExprError, match="add cannot be computed in f16: cast"):
        compile_program(linearise(tree.add(tree.Input(0, F16), tree.Input(1, F16))))


@pytest.mark.parametrize(
    ("inputs", "shape", "message"),
    [
        ([np.float64([1.0]), np.float32([1.0])], (1,), "input 0 is an array of float64, the expression says float32"),
        ([np.float32([1.0])], (1,), "reads input 1, which was not given"),
        ([np.float32([1.0]), None], (1,), "reads input 1, which was not given"),
        ([np.ones(2, np.float32), np.ones(3, np.float32)], (2,), "do not broadcast"),
        ([np.ones(2, np.float32), np.ones(2, np.float32)], (1,), r"broadcast to shape \(2,\), the output has \(1,\)"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(inputs: list[Any], shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(tree.ExprError, match=message):
        compile_program(linearise(tree.add(X, Y)))(inputs, np.empty(shape, np.float32))


def test_ill_typed_expressions_are_refused() -> None:
    with pytest.raises(tree.ExprError, match="add needs operands of one type, found f32, i32"):
        tree.add(X, tree.Input(1, I32))
    with pytest.raises(tree.ExprError, match="bit_and is not defined on f32"):
        tree.bit_and(X, Y)
    with pytest.raises(tree.ExprError, match="300 is not an i8 constant"):
        tree.literal(300, I8)
    with pytest.raises(tree.ExprError, match="input 0 is f32, its replacement is f64"):
        substitute(X, {0: tree.Input(0, F64)})
