"""What watch expressions are worth: NumPy does the same sums."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import openinfer as oi
from openinfer.inspect.conditions import parse
from openinfer.inspect.evaluation import Values

X = np.array([[1.5, -4.0, np.nan], [np.inf, 0.0, 2.0]], np.float32)
H = np.array([0.5, -2.0], ml_dtypes.bfloat16)
WHOLE = np.array([3, -7, 0], np.int16)
U = np.array([2**64 - 1, 1], np.uint64)
B = np.array([True, False])

TEXT = """
dynamic { x: f32[2, 3]; h: bf16[2]; i: i16[3]; u: u64[2]; b: bool[2]; s: i32; q: i4[4]; }
volatile { W(l): f32[2] @pattern("w{l}"); e: f32[0]; }
persistent { K(t): f32[2] @table; n: i32 @init(1); }
block entry { cache.write W[1] >> K[2]; loop outer (l in 0..2) { loop inner (m in 5..7) { barrier; } } return; }
"""


@pytest.fixture
def values() -> Values:
    weights = {f"w{place}": np.full(2, place, np.float32) for place in range(3)}
    executor = oi.Simulator(oi.Model.from_arrays(weights, sizevars={"D": 2}), oi.graph(TEXT)).make_executor()
    executor.step(x=X, h=H, i=WHOLE, u=U, b=B, s=2, q=np.array([-8, 7, 0, 1], np.int8))
    return Values(executor)


EXPECTED: dict[str, Any] = {
    "s": 2,
    "x[0, 1]": -4.0,
    "x[-1, 2]": 2.0,
    "x[0]": X[0].astype(np.float64),
    "i[1..]": WHOLE[1:],
    "h": H.astype(np.float64),
    "q": np.array([-8, 7, 0, 1]),
    "W[2]": np.full(2, 2.0),
    "W[n + 1]": np.full(2, 2.0),
    "W[D]": np.full(2, 2.0),
    "K[2]": np.full(2, 1.0),
    "K[0..3]": np.array([[0, 0], [0, 0], [1, 1]]),
    "abs(i)": np.abs(WHOLE),
    "max(abs(i))": 7,
    "min(h)": -2.0,
    "mean(i)": WHOLE.mean(),
    "sum(h) * 2 + 1": -2.0,
    "norm(i)": np.linalg.norm(WHOLE),
    "count(i)": 2,
    "any(isnan(x))": True,
    "any(isinf(x))": True,
    "all(isfinite(x))": False,
    "isnan(x[0, 2]) and not isnan(x[0, 0])": True,
    "b[0] + b[1] + 1": 2,
    "-b": np.array([-1, 0]),
    "u[0] > 1e19": True,
    "s / 4": 0.5,
    "1 / 0": np.inf,
    "i > 0 or b[1]": WHOLE > 0,
    "x[0, 2] == nan": False,
    "sum(e)": 0.0,
    "9999999999999999999999 > 1": True,
}


@pytest.mark.parametrize("text", EXPECTED)
def test_an_expression_is_worth_what_numpy_says(values: Values, text: str) -> None:
    found, expected = values.evaluate(parse(text)), np.asarray(EXPECTED[text])
    assert found.dtype.kind == expected.dtype.kind or {found.dtype.kind, expected.dtype.kind} <= {"i", "f"}
    assert found.shape == expected.shape
    assert np.array_equal(found, expected, equal_nan=found.dtype.kind == "f")


@pytest.mark.parametrize(
    ("text", "code", "reported"),
    [
        ("nothing", "unknown-variable", "nothing"),
        ("x[2, 0]", "out-of-range", "shape [2, 3]"),
        ("x[a b]", "bad-condition", "x[a b]"),
        ("x[1, 1, 1]", "out-of-range", "shape [2, 3]"),
        ("W", "needs-index", "W[0]"),
        ("W[9]", "model-data", "w9"),
        ("K[-1]", "index-count", "K[-1]"),
        ("x + h", "bad-condition", "[[2, 3], [2]]"),
        ("max(e)", "bad-condition", "max of no elements"),
    ],
)
def test_what_has_no_value_says_why(values: Values, text: str, code: str, reported: str) -> None:
    with pytest.raises(oi.ExecutionError) as caught:
        values.evaluate(parse(text))
    assert (caught.value.code, reported in str(caught.value)) == (code, True)


def test_a_condition_has_one_element(values: Values) -> None:
    assert values.holds(parse("sum(i) < 0"))
    assert not values.holds(parse("W[9] > 1"))
    with pytest.raises(oi.ExecutionError, match=r"shape \[3\]: say any"):
        values.holds(parse("i > 0"))


def test_loop_indices_are_values() -> None:
    text = """volatile { W(l): f32[2] @pattern("w{l}"); y: f32[2]; }
    block entry { loop r (l in 0..2) { loop c (m in 3..5) { transfer W[l] >> y; barrier; } } return; }"""
    model = oi.Model.from_arrays({"w0": np.zeros(2, np.float32), "w1": np.ones(2, np.float32)})
    executor = oi.Simulator(model, oi.graph(text)).make_executor()
    values = Values(executor)
    seen = [
        (int(values.evaluate(parse("10 * l + m"))), values.evaluate(parse("W[l]"))[0])
        for run in executor.iterate()
        if run.event.kind == "Transfer"
    ]
    assert seen == [(3, 0.0), (4, 0.0), (13, 1.0), (14, 1.0)]
