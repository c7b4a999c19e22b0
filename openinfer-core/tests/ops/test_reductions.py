"""Reductions and composite operators, carried out by their folds and decompositions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openinfer.dtypes import BY_NAME
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.ops.schema import OpSchema, OpTypeError

NAN, INF = math.nan, math.inf
CUBE = np.random.default_rng(3).integers(-9, 9, (2, 3, 4))


@pytest.mark.parametrize("axes", [0, -1, (0, 2), (2, 0), (), None, (0, 1, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(
    ("op", "oracle"), [("sum_axis", np.sum), ("prod_axis", np.prod), ("max_axis", np.max), ("min_axis", np.min)]
)
def test_reductions_agree_with_numpy(evaluate: Any, op: str, oracle: Any, axes: Any, *, keepdims: bool) -> None:
    numpy_axes = None if axes in ((), None) else axes

    found = evaluate(op, "f64", CUBE, axes=axes, keepdims=keepdims)

    np.testing.assert_allclose(found, oracle(CUBE.astype(np.float64), axis=numpy_axes, keepdims=keepdims))
    assert found.shape == oracle(CUBE, axis=numpy_axes, keepdims=keepdims).shape


@pytest.mark.rule("operators.numbers.5", "operators.shapes.4")
@pytest.mark.parametrize(
    ("op", "dtype", "values", "settings", "expected"),
    [
        ("sum_axis", "u8", [200, 100], {}, 44),
        ("sum_axis", "i4", [7, 7], {}, -2),
        ("sum_axis", "u8", [200, 100], {"acc": (BY_NAME["u16"],)}, 300),
        ("sum_axis", "u4", [15, 15, 15, 15], {"acc": (BY_NAME["u8"], BY_NAME["u4"])}, 15),
        ("sum_axis", "u8", [1, 2, 3], {"acc": (BY_NAME["u32"], BY_NAME["f32"])}, 6.0),
        ("sum_axis", "i8", [-100, -100], {"acc": (BY_NAME["i16"], BY_NAME["u8"])}, 0),
        ("prod_axis", "u8", [30, 30, 30, 30], {"acc": (BY_NAME["u32"], BY_NAME["u8"])}, 255),
        ("mean_axis", "i4", [7, 7], {"acc": (BY_NAME["i32"], BY_NAME["i2"])}, 1),
        ("sum_axis", "f32", [], {}, 0.0),
        ("prod_axis", "i32", [], {}, 1),
        ("prod_axis", "u1", [1, 1], {}, 1),
        ("mean_axis", "i32", [-3, -4], {}, -3),
        ("mean_axis", "u8", [255, 255], {}, 255),
        ("mean_axis", "u64", [2**63, 2**63], {}, 0),
        ("mean_axis", "f32", [1.0, 2.0], {}, 1.5),
        ("mean_axis", "f32", [], {}, NAN),
        ("max_axis", "f32", [NAN, 1.0], {}, NAN),
        ("max_axis", "f32", [1.0, NAN, 2.0], {}, 2.0),
        ("max_axis", "f32", [1.0, NAN, 2.0], {"nan": "propagate"}, NAN),
        ("min_axis", "i4", [-8, 7], {}, -8),
        ("l2_axis", "f32", [3.0, 4.0], {}, 5.0),
        ("any_axis", "bool", [False, True], {}, True),
        ("any_axis", "bool", [], {}, False),
        ("all_axis", "bool", [False, True], {}, False),
        ("all_axis", "bool", [], {}, True),
        ("is_finite", "f16", [[1.0, 2.0], [NAN, 0.0]], {}, False),
        ("is_finite", "f32", [1.0, -INF], {}, False),
        ("is_finite", "f8", [1.0], {}, True),
        ("is_finite", "f64", [], {}, True),
    ],
)
def test_the_specification_says(
    evaluate: Any, op: str, dtype: str, values: list[Any], settings: dict[str, Any], expected: Any
) -> None:
    found = evaluate(op, dtype, values, **settings)

    assert found.shape == ()
    assert found.item() == expected or (math.isnan(expected) and math.isnan(found.item()))


@pytest.mark.rule("dtypes.computing.3")
def test_low_floats_accumulate_in_f32(evaluate: Any) -> None:
    assert evaluate("sum_axis", "bf16", np.ones(512)).item() == 512.0


@pytest.mark.rule("dtypes.computing.3")
@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=12))
def test_integer_sums_are_exact_modulo_the_width(evaluate: Any, values: list[int]) -> None:
    wrapped = (sum(values) + 2**31) % 2**32 - 2**31

    assert evaluate("sum_axis", "i32", values).item() == wrapped


@pytest.mark.rule("operators.shapes.5")
@pytest.mark.parametrize("op", ["max_axis", "min_axis"])
def test_extremes_of_nothing_are_refused(evaluate: Any, op: str) -> None:
    with pytest.raises(OpTypeError, match=r"slices of shape \[2,0\] along axes \[1\] are empty"):
        evaluate(op, "f32", np.zeros((2, 0)), axes=1)


@pytest.mark.rule("operators.shapes.5")
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (0, 0, 3), (2, 0, 0)])
@pytest.mark.parametrize(
    "op", ["sum_axis", "prod_axis", "mean_axis", "max_axis", "min_axis", "argmax_axis", "argmin_axis"]
)
def test_a_result_without_elements_has_its_shape(
    catalog: Mapping[str, OpSchema], op: str, shape: tuple[int, ...]
) -> None:
    setting = "axis" if op.startswith("arg") else "axes"
    for axis, keepdims, dtype in product(range(len(shape)), (False, True), ("f32", "i32")):
        rest = np.zeros(shape).sum(axis, keepdims=keepdims).shape
        if 0 in rest:
            call = call_of(catalog[op], [TensorType(BY_NAME[dtype], shape)], {setting: axis, "keepdims": keepdims})
            assert call.outputs[0].shape == rest


@pytest.mark.rule("operators.shapes.5")
@pytest.mark.parametrize("op", ["argmax_axis", "argmin_axis"])
def test_positions_in_nothing_are_refused(evaluate: Any, op: str) -> None:
    with pytest.raises(OpTypeError, match="empty"):
        evaluate(op, "f32", np.zeros((2, 0)), axis=1)


def test_the_integer_mean_of_nothing_is_refused(evaluate: Any) -> None:
    with pytest.raises(OpTypeError, match="empty"):
        evaluate("mean_axis", "i32", np.zeros((0,)))


@pytest.mark.rule("operators.shapes.4")
@pytest.mark.parametrize(
    ("axes", "message"), [(3, "axis 3 is out of range for rank 3"), ((0, -3), "name one dim twice")]
)
def test_illegal_axes_are_refused(evaluate: Any, axes: Any, message: str) -> None:
    with pytest.raises(OpTypeError, match=message):
        evaluate("sum_axis", "f32", CUBE, axes=axes)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax(evaluate: Any, dtype: str, axis: int) -> None:
    x = CUBE * 20.0
    powers = np.exp(x - x.max(axis, keepdims=True))

    found = evaluate("softmax", dtype, x, axis=axis)

    np.testing.assert_allclose(found, powers / powers.sum(axis, keepdims=True), rtol=2e-6, atol=1e-37)


def test_softmax_of_nothing_but_minus_infinity_is_nan(evaluate: Any) -> None:
    found = evaluate("softmax", "f32", [[-INF, -INF], [0.0, -INF]])

    np.testing.assert_array_equal(found, [[NAN, NAN], [1.0, 0.0]])


def test_softmax_of_low_floats_rounds_once(evaluate: Any) -> None:
    x = np.linspace(-4, 4, 7).astype(np.float16)
    powers = np.exp(x.astype(np.float32) - np.float32(4))

    found = evaluate("softmax", "f16", x)

    np.testing.assert_array_equal(found, (powers / powers.sum(dtype=np.float32)).astype(np.float16))


def test_log_softmax(evaluate: Any) -> None:
    x = CUBE[0].astype(np.float64)

    found = evaluate("log_softmax", "f64", x)

    np.testing.assert_allclose(found, x - np.log(np.exp(x).sum(-1, keepdims=True)), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("trans_w", [False, True])
def test_linear(evaluate: Any, *, trans_w: bool) -> None:
    x, w, bias = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4), np.arange(4.0)

    found = evaluate("linear", "f32", x, w.T if trans_w else w, bias, trans_w=trans_w)

    np.testing.assert_array_equal(found, x @ w + bias)


@pytest.mark.rule("operators.types.3")
def test_linear_computes_mixed_floats_in_the_widest(evaluate: Any) -> None:
    x, w = np.full((1, 2048), 1.0), np.full((2048, 1), 1.0)

    found = evaluate("linear", None, ("f16", x), ("f32", w), ("f32", [0.25]))

    assert found.dtype == np.float16
    assert found.item() == np.float16(2048.25)


def test_global_pooling(evaluate: Any) -> None:
    x = CUBE.reshape(1, 2, 3, 4)

    np.testing.assert_allclose(
        evaluate("global_avg_pool", "f64", x), x.mean(axis=(2, 3), keepdims=True, dtype=np.float64)
    )
    np.testing.assert_array_equal(evaluate("global_max_pool", "i32", x), x.max(axis=(2, 3), keepdims=True))
