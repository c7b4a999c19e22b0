"""Zero points of images in biases: the same sums, modulo 2^32, borders included."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openinfer.affine import Index
from openinfer.compute import Computation, Tensor
from openinfer.compute.evaluate import evaluate
from openinfer.compute.reading import parse_computation
from openinfer.compute.text import computation_text
from openinfer.compute.verify import verify
from openinfer.compute.zero_points import offset_sum, without_zero_point
from openinfer.dtypes import I32

CONVOLUTION = """\
def conv(x: i8[2, 5, 4], w: i8[3, 2, 3, 3], z: i8[()], b: i32[3, 1], /, y: i32[3, 5, 4]):
    for o, i, j in grid(3, 5, 4):
        for c, p, q in unordered(2, 3, 3):
            total0 = start(i32(0))
            term0 = cast(w[o, c, p, q], i32) * (cast(fill(x[c, i + p - 1, j + q - 1], i8(0)), i32) \
- cast(fill(z[()], i8(0), 0 <= i + p - 1 < 5, 0 <= j + q - 1 < 4), i32))
            total0 = total0 + term0
        y[o, i, j] = (total0 + b[o, 0]) * i32(2)
"""

PRODUCT = """\
def product(x: i8[4, 6], w: i8[6, 3], z: i8[()], b: i32[3, 1], /, y: i32[4, 3]):
    for i, j in grid(4, 3):
        for k in unordered(6):
            total0 = start(i32(0))
            term0 = (cast(x[i, k], i32) - cast(z[()], i32)) * cast(w[k, j], i32)
            total0 = total0 + term0
        y[i, j] = total0 + b[j, 0]
"""


def rewritten(computation: Computation, zero: int) -> Computation:
    """Return the computation whose totals begin with the tensor ``s``, without the inputs that nothing reads."""
    (stage,) = computation.stages
    parts = offset_sum(stage, computation)
    assert parts is not None
    made = without_zero_point(stage, parts, zero, "s")
    x, w, *_ = computation.inputs
    return replace(computation, inputs=(x, w, Tensor("s", I32, (Index.of(3),))), stages=(made,))


@given(st.integers(0, 2**32 - 1), st.integers(-128, 127), st.sampled_from([CONVOLUTION, PRODUCT]))
def test_sums_are_the_same(seed: int, zero: int, text: str) -> None:
    computation = parse_computation(text)
    numbers = np.random.default_rng(seed)
    x, w = (
        numbers.integers(-128, 128, [extent.constant for extent in tensor.shape]).astype(np.int8)
        for tensor in computation.inputs[:2]
    )
    bias = numbers.integers(-(2**31), 2**31, (3, 1)).astype(np.int32)
    folded = (1, 2, 3) if text is CONVOLUTION else (0,)
    start = (bias[:, 0] - np.int64(zero) * w.sum(axis=folded, dtype=np.int64)).astype(np.int32)

    made = rewritten(computation, zero)
    verify(made)

    expected = evaluate(computation, [x, w, np.int8(zero).reshape(()), bias])
    np.testing.assert_array_equal(evaluate(made, [x, w, start]), expected)


def test_a_border_holds_the_zero_point() -> None:
    text = computation_text(rewritten(parse_computation(CONVOLUTION), -7))

    assert "fill(x[c, i + p - 1, j + q - 1], i8(-7))" in text
    assert "total0 = start(s[o])" in text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("0 <= j + q - 1 < 4), i32)", "0 <= j + q - 1 < 3), i32)"),  # another border than that of the image
        (", 0 <= j + q - 1 < 4), i32)", "), i32)"),
        ("j + q - 1], i8(0))", "j + q - 1], i8(1))"),
        ("fill(z[()], i8(0)", "fill(z[()], i8(1)"),
        ("z: i8[()]", "z: u8[()]"),  # the image cannot hold 200
        ("start(i32(0))", "start(i32(1))"),
        ("total0 + term0", "maximum(total0, term0)"),
        ("cast(w[o, c, p, q], i32)", "cast(fill(w[o, c, p, q], i8(0)), i32)"),
    ],
)
def test_other_sums_stay(old: str, new: str) -> None:
    assert old in CONVOLUTION
    text = CONVOLUTION.replace(old, new).replace("z[()], i8(0)", "z[()], u8(0)" if "u8" in new else "z[()], i8(0)")
    computation = parse_computation(text)

    assert offset_sum(computation.stages[0], computation) is None


@pytest.mark.parametrize("value", ["(total0 + b[o, 0]) * total0", "(total0 + b[o, 0]) * (total0 + x[0, i, j])"])
def test_a_bias_is_that_of_every_use_of_the_total(value: str) -> None:
    text = CONVOLUTION.replace("(total0 + b[o, 0]) * i32(2)", value).replace("+ x[0, i, j]", "+ b[0, 0]")
    computation = parse_computation(text)
    parts = offset_sum(computation.stages[0], computation)

    assert parts is not None
    assert parts.bias is None


@pytest.mark.parametrize(
    ("weight", "at"),
    [
        ("6, 3", "j, j"),
        ("9, 3", "k + j, j"),
        ("12, 3", "2 * k, j"),
        ("6, 6", "k, k"),
        ("8, 3", "k, j"),
        ("3, 3", "j, j"),
    ],
)
def test_weights_that_a_sum_does_not_read_once_each_have_no_sum_of_their_own(weight: str, at: str) -> None:
    text = PRODUCT.replace("w: i8[6, 3]", f"w: i8[{weight}]").replace("w[k, j]", f"w[{at}]")
    computation = parse_computation(text)
    (stage,) = computation.stages
    assert offset_sum(stage, computation) is None
