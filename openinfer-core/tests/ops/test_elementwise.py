"""Elementwise operators: the meaning that the specification gives them, case by case."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from openinfer.dtypes import BY_NAME
from openinfer.ops.schema import OpTypeError

NAN, INF = math.nan, math.inf


def check(found: np.ndarray[Any, Any], expected: Any, *, tolerance: float = 0.0) -> None:
    """Compare values; zeros by sign, NaN equal to NaN."""
    wanted = np.asarray(expected)
    assert found.shape == wanted.shape
    if wanted.dtype.kind == "f" and tolerance == 0.0:
        np.testing.assert_array_equal(found.astype(np.float64), wanted)
        np.testing.assert_array_equal(
            np.signbit(found.astype(np.float64))[wanted == 0], np.signbit(wanted)[wanted == 0]
        )
    elif tolerance:
        np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=tolerance, atol=tolerance)
    else:
        assert found.tolist() == wanted.tolist()


# op, dtype, inputs, settings, expected
CASES: list[tuple[str, str, list[Any], dict[str, Any], Any]] = [
    ("add", "u8", [[250, 1], [10, 2]], {}, [4, 3]),
    ("add", "i4", [[7, -8], [1, -1]], {}, [-8, 7]),
    ("add", "u2", [[3], [2]], {}, [1]),
    ("add", "i1", [[-1], [-1]], {}, [0]),
    ("add", "bool", [[True, False], [True, False]], {}, [True, False]),
    ("mul", "bool", [[True, True], [True, False]], {}, [True, False]),
    ("add", "bitset", [[255], [3]], {}, [2]),
    ("mul", "i64", [[2**62], [4]], {}, [0]),
    ("sub", "u8", [[3], [4]], {"acc": (BY_NAME["u16"],)}, [65535]),
    ("add", "i4", [[7], [7]], {"acc": (BY_NAME["i8"],)}, [14]),
    ("mul", "i8", [[100], [100]], {"acc": (BY_NAME["i16"], BY_NAME["i32"])}, [10000]),
    ("mul", "i8", [[100], [100]], {"acc": (BY_NAME["i32"], BY_NAME["i8"])}, [127]),
    ("mul", "i8", [[100], [-100]], {"acc": (BY_NAME["i32"], BY_NAME["i4"])}, [-8]),
    ("mul", "i4", [[7], [7]], {"acc": (BY_NAME["i32"], BY_NAME["i4"])}, [7]),
    ("sub", "u8", [[3], [4]], {"acc": (BY_NAME["u16"], BY_NAME["u8"])}, [255]),
    ("sub", "u8", [[3], [4]], {"acc": (BY_NAME["u16"], BY_NAME["i32"])}, [65535]),
    ("sub", "u8", [[3], [4]], {"acc": (BY_NAME["u16"], BY_NAME["f16"])}, [INF]),
    ("mul", "i8", [[100], [100]], {"acc": (BY_NAME["i16"], BY_NAME["f32"])}, [10000.0]),
    ("add", "i32", [[2**31 - 1], [1]], {"acc": (BY_NAME["i64"], BY_NAME["f32"])}, [2.0**31]),
    ("add", "f16", [[60000.0], [60000.0]], {"acc": (BY_NAME["f32"], BY_NAME["i8"])}, [127]),
    ("add", "f16", [[60000.0], [60000.0]], {"acc": (BY_NAME["f64"], BY_NAME["f16"])}, [INF]),
    ("div", "f32", [[1.0, -1.0, -1.0, 0.0, 6.0], [0.0, 0.0, -0.0, 0.0, 4.0]], {}, [INF, -INF, INF, NAN, 1.5]),
    ("div", "f32", [[1.0, -1.0, 0.0, 6.0], [0.0, -0.0, 0.0, 4.0]], {"div_by_zero_mask": NAN}, [NAN, NAN, NAN, 1.5]),
    ("div", "f32", [[1.0, 1.0], [0.0, 2.0]], {"div_by_zero_mask": INF}, [INF, 0.5]),
    ("div", "f32", [[1.0, -1.0], [0.0, 0.0]], {"div_by_zero_mask": "ieee"}, [INF, -INF]),
    ("div", "i32", [[7, -7, 7, -(2**31), 5], [2, 2, -2, -1, 0]], {}, [3, -3, -3, -(2**31), 0]),
    ("div", "i32", [[5], [0]], {"div_by_zero_mask": 9}, [9]),
    ("div", "i32", [[5, 6], [0, 4]], {"div_by_zero_mask": NAN}, [0, 1]),
    ("div", "i4", [[-8, 7], [-1, 0]], {}, [-8, 0]),
    ("floor_div", "i32", [[7, -7, 1, -7], [-2, -2, -2, 2]], {}, [-3, 4, 0, -4]),
    ("floor_div", "i32", [[7, -7, 1, -7], [-2, -2, -2, 2]], {"mode": "floor"}, [-4, 3, -1, -4]),
    ("floor_div", "i64", [[-(2**63), 3], [-1, 0]], {}, [-(2**63), 0]),
    ("floor_div", "u8", [[200, 3], [7, 0]], {"div_by_zero_mask": 1}, [28, 1]),
    ("rem", "i32", [[7, -7, 7, 5], [2, 2, -2, 0]], {}, [1, -1, 1, 0]),
    ("rem", "f32", [[5.5, -5.5, 1.0], [2.0, 2.0, 0.0]], {}, [1.5, -1.5, NAN]),
    ("rem", "f32", [[5.5, INF, 1.0], [0.0, 2.0, INF]], {"div_by_zero_mask": 3}, [3.0, NAN, 1.0]),
    ("mod", "i32", [[7, -7, 7, 5], [2, 2, -2, 0]], {}, [1, 1, -1, 0]),
    ("mod", "f64", [[5.5, -5.5, 1.0], [2.0, 2.0, 0.0]], {}, [1.5, 0.5, NAN]),
    ("fma", "f32", [[2.0], [3.0], [4.0]], {}, [10.0]),
    ("neg", "f32", [[0.0, -2.0]], {}, [-0.0, 2.0]),
    ("neg", "i2", [[-2, 1]], {}, [-2, -1]),
    ("abs", "i1", [[-1]], {}, [-1]),
    ("abs", "i8", [[-128, -5]], {}, [-128, 5]),
    ("abs", "i8", [[-128]], {"acc": (BY_NAME["i16"],)}, [128]),
    ("abs", "i8", [[-128]], {"acc": (BY_NAME["i32"], BY_NAME["i8"])}, [127]),
    ("recip", "f32", [[4.0, 0.0, -0.0]], {}, [0.25, INF, -INF]),
    ("recip", "f32", [[4.0, 0.0, -0.0]], {"div_by_zero_mask": "ieee"}, [0.25, INF, -INF]),
    ("recip", "f32", [[4.0, 0.0, -0.0]], {"div_by_zero_mask": NAN}, [0.25, NAN, NAN]),
    ("square", "u8", [[16, 3]], {}, [0, 9]),
    ("min", "f32", [[NAN, 1.0, NAN], [2.0, NAN, NAN]], {}, [2.0, 1.0, NAN]),
    ("max", "f32", [[NAN, 1.0, 3.0], [2.0, NAN, 5.0]], {"nan": "propagate"}, [NAN, NAN, 5.0]),
    ("max", "u1", [[0, 1], [1, 0]], {}, [1, 1]),
    ("relu", "f32", [[-INF, -2.0, -0.0, 0.0, 3.0, NAN]], {}, [0.0, 0.0, -0.0, 0.0, 3.0, NAN]),
    ("relu", "f32", [[-2.0, 3.0]], {"negative_slope": 0.5, "clamp_max": 2.5}, [-1.0, 2.5]),
    ("relu", "f32", [[-2.0, -0.1]], {"alpha": 1.0, "clamp_min": -0.5}, [-0.5, np.float32(-0.1)]),
    ("relu", "i32", [[-3, 4]], {"alpha": 2}, [-6, 4]),
    ("relu", "i8", [[-100]], {"alpha": 2}, [56]),
    ("relu", "i4", [[-8, 7]], {"clamp_max": 3}, [0, 3]),
    ("clamp", "f32", [[NAN, -5.0, 5.0]], {"min": -1.0, "max": 1.0}, [NAN, -1.0, 1.0]),
    ("clamp", "f32", [[NAN, -5.0]], {"min": -1.0, "nan": "bound"}, [-1.0, -1.0]),
    ("clamp", "f64", [[INF, -INF]], {}, [INF, -INF]),
    ("clamp", "f64", [[INF]], {"nan": "bound"}, [1.7976931348623157e308]),
    ("clamp", "f32", [[0.0]], {"min": 2.0, "max": 1.0}, [1.0]),
    ("clamp", "u8", [[0, 200]], {"min": -5, "max": 1000}, [0, 200]),
    ("clamp", "i4", [[-8, 7]], {"clamp_min": -2, "clamp_max": 100}, [-2, 7]),
    ("floor", "f32", [[-0.5, 1.5, -0.0]], {}, [-1.0, 1.0, -0.0]),
    ("round", "f32", [[2.5, -2.5, 0.5, -0.3, INF, NAN]], {}, [3.0, -3.0, 1.0, -0.0, INF, NAN]),
    ("round", "f32", [[2.5, -2.5, 3.5]], {"mode": "half_even"}, [2.0, -2.0, 4.0]),
    ("round", "f32", [[1.2, -1.2]], {"mode": "up"}, [2.0, -1.0]),
    ("sign", "f32", [[-3.0, 0.0, NAN, 2.0]], {}, [-1, 0, 0, 1]),
    ("sign", "i4", [[-8, 0, 3]], {}, [-1, 0, 1]),
    ("fill", "f32", [[1.0, NAN]], {"value": 2}, [2.0, 2.0]),
    ("fill", "i64", [[1, 2]], {"value": -1}, [-1, -1]),
    ("fill", "bool", [[False]], {"value": 1}, [True]),
    ("fill", "bitset", [[0]], {"value": 255}, [255]),
    ("and", "i4", [[-8], [7]], {}, [0]),
    ("xor", "u8", [[0b1100], [0b1010]], {}, [0b0110]),
    ("or", "bool", [[True, False], [False, False]], {}, [True, False]),
    ("not", "u2", [[0, 3]], {}, [3, 0]),
    ("not", "bool", [[True]], {}, [False]),
    ("not", "i8", [[0]], {}, [-1]),
    ("shl", "i4", [[3, -8]], {"bits": 2}, [-4, 0]),
    ("shl", "u8", [[1]], {"bits": 8}, [0]),
    ("shl", "i64", [[1]], {"bits": 64}, [0]),
    ("shl", "i32", [[5]], {"bits": -3}, [5]),
    ("shr", "i8", [[-128, 127]], {"bits": 200}, [-1, 0]),
    ("shr", "u8", [[255]], {"bits": 3}, [31]),
    ("popcount", "i8", [[-1, 3]], {}, [8, 2]),
    ("popcount", "i4", [[-6]], {}, [2]),
    ("popcount", "i2", [[-1]], {}, [2]),
    ("popcount", "u64", [[2**64 - 1, 2**63]], {}, [64, 1]),
    ("eq", "f32", [[NAN, 0.0], [NAN, -0.0]], {}, [False, True]),
    ("ne", "f32", [[NAN, 0.0], [NAN, -0.0]], {}, [True, False]),
    ("lt", "u64", [[2**63], [2**63 + 1]], {}, [True]),
    ("ge", "i4", [[-1], [0]], {}, [False]),
    ("filter", "f32", [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [NAN, -0.0, 1.0]], {}, [1.0, 5.0, 3.0]),
    ("is_nan", "f16", [[NAN, 1.0]], {}, [True, False]),
    ("is_inf", "f8", [[-INF, 1.0]], {}, [True, False]),
    ("is_neg", "f32", [[-0.0, 0.0, -1.0, math.copysign(NAN, -1)]], {}, [True, False, True, True]),
    ("is_neg", "i4", [[-8, 7]], {}, [True, False]),
    ("is_neg", "u8", [[255]], {}, [False]),
    ("is_finite_each", "f32", [[1.0, INF, NAN]], {}, [True, False, False]),
    ("fill_nan_like", "f32", [[NAN, INF, -INF, 2.0]], {"value": 7.0}, [7.0, 7.0, 7.0, 2.0]),
    ("prelu", "f32", [[-2.0, 3.0], [0.5]], {}, [-1.0, 3.0]),
    ("rsqrt", "f32", [[4.0, 0.0]], {}, [0.5, INF]),
    ("pow", "f32", [[2.0, 9.0], [10.0, 0.5]], {}, [1024.0, 3.0]),
    ("pow", "f32", [[-INF, -0.0, 4.0, -4.0, NAN], 0.5], {}, [INF, 0.0, 2.0, NAN, NAN]),
    ("pow", "f64", [[-INF, -0.0, 4.0], [0.5]], {}, [INF, 0.0, 2.0]),
    ("pow", "f32", [[[-INF, -0.0]], [[0.5], [-1.0]]], {}, [[INF, 0.0], [-0.0, -INF]]),
    ("pow", "f32", [[1.0, NAN, -1.0, -1.0], [NAN, 0.0, INF, 3.0]], {}, [1.0, 1.0, 1.0, -1.0]),
]


@pytest.mark.rule(
    "dtypes.accumulators.1",
    "dtypes.accumulators.2",
    "dtypes.computing.2",
    "dtypes.computing.4",
    "dtypes.computing.5",
    "operators.numbers.1",
    "operators.numbers.2",
    "operators.numbers.3",
    "operators.numbers.4",
)
@pytest.mark.parametrize(("op", "dtype", "inputs", "settings", "expected"), CASES)
def test_the_specification_says(
    evaluate: Any, op: str, dtype: str, inputs: list[Any], settings: dict[str, Any], expected: Any
) -> None:
    check(evaluate(op, dtype, *inputs, **settings), expected)


CASTS: list[tuple[str, str, list[Any], dict[str, Any], list[Any]]] = [
    ("f32", "u8", [-5.0, 300.0, NAN, 2.9, INF], {}, [0, 255, 0, 2, 255]),
    ("f32", "i4", [-9.0, 9.0, -1.5], {}, [-8, 7, -1]),
    ("f32", "i32", [3e9, -3e9], {}, [2**31 - 1, -(2**31)]),
    ("f64", "u64", [1.8e19, 2.0e19], {}, [18000000000000000000, 2**64 - 1]),
    ("f32", "i8", [300.0, -129.0, 1e30, INF, NAN], {"saturate": False}, [44, 127, 0, 0, 0]),
    ("f32", "i8", [2.5, -2.5, 3.5], {"rounding_mode": "nearest"}, [3, -3, 4]),
    ("f32", "i8", [2.5, -2.5, 3.5], {"rounding_mode": "half_even"}, [2, -2, 4]),
    ("f32", "i8", [2.5, -2.5, 3.5, 2.4], {"rounding_mode": "half_odd"}, [3, -3, 3, 2]),
    ("f32", "i8", [2.5, -2.5], {"rounding_mode": "half_up"}, [3, -2]),
    ("f32", "i8", [2.5, -2.5], {"rounding_mode": "half_down"}, [2, -3]),
    ("f32", "i8", [2.5, -2.5], {"rounding_mode": "floor"}, [2, -3]),
    ("f32", "i8", [2.1, -2.9], {"rounding_mode": "up"}, [3, -2]),
    ("i32", "u8", [-1, 256, 7], {}, [0, 255, 7]),
    ("i32", "u8", [-1, 256, 7], {"saturate": False}, [255, 0, 7]),
    ("u64", "i8", [2**63, 5], {}, [127, 5]),
    ("i64", "u64", [-1], {}, [0]),
    ("i64", "f32", [2**24 + 1, -(2**63)], {}, [16777216.0, -9.223372036854775808e18]),
    ("u8", "u4", [200, 3], {}, [15, 3]),
    ("u8", "i2", [3], {"saturate": False}, [-1]),
    ("i4", "f16", [-8, 7], {}, [-8.0, 7.0]),
    ("f64", "f16", [65519.0, 65520.0, 1e-8, NAN], {}, [65504.0, INF, 0.0, NAN]),
    ("f32", "bf16", [1.0, 3.4e38, 1.00390625], {}, [1.0, INF, 1.0]),
    ("f32", "f8", [1.9, 61440.0, 57344.0], {}, [2.0, INF, 57344.0]),
    ("bool", "f32", [True, False], {}, [1.0, 0.0]),
    ("f32", "bool", [NAN, -0.0, 0.5], {}, [True, False, True]),
    ("i4", "bool", [-8, 0], {}, [True, False]),
    ("bitset", "u8", [255], {}, [255]),
    ("t1", "f32", [-1, 1], {}, [-1.0, 1.0]),
    ("t2", "i8", [-1, 0, 1], {}, [-1, 0, 1]),
    ("f32", "t2", [-7.0, -0.9, 0.0, 1.0, NAN, INF], {}, [-1, 0, 0, 1, 0, 1]),
    ("f32", "t2", [-7.0, 2.5, NAN, -INF], {"saturate": False}, [-1, 1, 0, -1]),
    ("i64", "t2", [-(2**63), 0, 2**32], {"saturate": False}, [-1, 0, 1]),
    ("u8", "t1", [0, 200], {}, [1, 1]),
]


@pytest.mark.rule("dtypes.conversion.2", "dtypes.conversion.3", "dtypes.conversion.4")
@pytest.mark.parametrize(("source", "target", "values", "settings", "expected"), CASTS)
def test_conversion(
    evaluate: Any, source: str, target: str, values: list[Any], settings: dict[str, Any], expected: list[Any]
) -> None:
    check(evaluate("cast", source, values, to=BY_NAME[target], **settings), expected)


X = [-20.0, -3.0, -1.0, -0.25, 0.0, 0.25, 1.0, 3.0, 20.0]
FORMULAS = {
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "silu": lambda x: x / (1 + math.exp(-x)),
    "gelu": lambda x: x / 2 * (1 + math.erf(x / math.sqrt(2))),
    "softplus": lambda x: math.log1p(math.exp(x)),
    "elu": lambda x: x if x >= 0 else math.expm1(x),
    "selu": lambda x: 1.05070102 * (x if x > 0 else 1.67326319 * math.expm1(x)),
    "hard_sigmoid": lambda x: min(max(0.2 * x + 0.5, 0), 1),
    "hard_swish": lambda x: x * min(max(x / 6 + 0.5, 0), 1),
    "mish": lambda x: x * math.tanh(math.log1p(math.exp(x))),
    "exp": math.exp,
    "tanh": math.tanh,
    "erf": math.erf,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
}


@pytest.mark.parametrize("op", FORMULAS)
def test_functions_follow_their_formula(evaluate: Any, op: str) -> None:
    check(evaluate(op, "f64", X), [FORMULAS[op](x) for x in X], tolerance=1e-12)
    check(evaluate(op, "f32", X), [FORMULAS[op](x) for x in X], tolerance=2e-6)


def test_gelu_by_tanh(evaluate: Any) -> None:
    expected = [x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) for x in X]

    check(evaluate("gelu", "f64", X, approximate="tanh"), expected, tolerance=1e-12)


def test_sigmoid_does_not_overflow(evaluate: Any) -> None:
    check(evaluate("sigmoid", "f32", [-INF, -1000.0, 1000.0, INF, NAN]), [0.0, 0.0, 1.0, 1.0, NAN])


@pytest.mark.rule("dtypes.computing.1")
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f8"])
def test_low_floats_round_once_from_f32(evaluate: Any, dtype: str) -> None:
    a, b = np.linspace(-3, 3, 64), np.linspace(0.5, 4, 64)
    storage = evaluate("fill", dtype, a, value=0.0).dtype
    wide_a, wide_b = (v.astype(storage).astype(np.float32) for v in (a, b))

    found = evaluate("fma", dtype, a, b, b)

    np.testing.assert_array_equal(found, (wide_a * wide_b + wide_b).astype(storage))


@pytest.mark.rule("operators.shapes.1")
def test_inputs_broadcast(evaluate: Any) -> None:
    found = evaluate("where", None, ("bool", [[True], [False]]), ("i8", [1, 2, 3]), ("i8", 9))

    assert found.tolist() == [[1, 2, 3], [9, 9, 9]]


REFUSED: list[tuple[str, str, list[Any], dict[str, Any], str, str]] = [
    ("add", "f32", [[1.0, 2.0], [1.0, 2.0, 3.0]], {}, "shape-mismatch", r"\[2\] and \[3\] do not broadcast: dim -1"),
    ("add", "i4", [[1], [1]], {"acc": (BY_NAME["u8"],)}, "acc-rules", "i4"),
    ("add", "i8", [[1], [1]], {"acc": (BY_NAME["i16"], BY_NAME["t2"])}, "acc-rules", "t2"),
    ("add", "f32", [[1.0], [1.0]], {"alpha": 1}, "unknown-setting", "add has no setting 'alpha'"),
    ("fill", "f32", [[1.0]], {}, "missing-setting", "needs the setting 'value'"),
    ("fill", "u8", [[1]], {"value": 256}, "setting-type", "0..255"),
    ("fill", "u8", [[1]], {"value": -1}, "setting-type", "0..255"),
    ("fill", "i32", [[1]], {"value": 1.5}, "setting-type", "an integer"),
    ("relu", "i32", [[1]], {"alpha": 0.5}, "setting-type", "alpha"),
    ("clamp", "i32", [[1]], {"min": 0.5}, "setting-type", "min"),
    ("div", "i32", [[1], [1]], {"div_by_zero_mask": "ieee"}, "setting-type", "div_by_zero_mask"),
    ("floor_div", "i32", [[1], [1]], {"mode": "flor"}, "setting-type", "did you mean `floor`"),
    ("shl", "i32", [[1]], {"bits": True}, "setting-type", "takes int"),
    ("exp", "i32", [[1]], {}, "dtype-unsupported", r"exp takes no i32\[1\]"),
    ("fill", "t1", [[1]], {"value": 0}, "setting-type", "for t1 it takes -1 or 1"),
    ("cast", "f32", [[1.0]], {"to": BY_NAME["i8"], "rounding_mode": "banker"}, "setting-type", "banker"),
]


@pytest.mark.parametrize(("op", "dtype", "inputs", "settings", "code", "message"), REFUSED)
def test_what_does_not_fit_is_refused(
    evaluate: Any, op: str, dtype: str, inputs: list[Any], settings: dict[str, Any], code: str, message: str
) -> None:
    with pytest.raises(OpTypeError, match=message) as caught:
        evaluate(op, dtype, *inputs, **settings)

    assert caught.value.code == code


@pytest.mark.parametrize(("kind", "condition"), [("f32", "i32"), ("i32", "f32"), ("bool", "u8")])
def test_a_condition_is_bool_or_of_the_type_of_what_it_chooses_from(evaluate: Any, kind: str, condition: str) -> None:
    with pytest.raises(
        OpTypeError, match=rf"cond is {condition}\[1\], expected bool or the type of a, {kind}"
    ) as caught:
        evaluate("filter", None, (kind, [1]), (kind, [0]), (condition, [1]))

    assert caught.value.code == "dtype-unsupported"


@pytest.mark.rule("operators.types.1")
def test_inputs_of_two_types_are_refused(evaluate: Any) -> None:
    with pytest.raises(OpTypeError, match=r"inputs of add have one dtype, found f32\[1\] and f64\[1\]") as caught:
        evaluate("add", None, ("f32", [1.0]), ("f64", [1.0]))

    assert caught.value.code == "dtype-unsupported"
