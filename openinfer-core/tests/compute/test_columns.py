"""Columns of pairs: the same sums of products of bytes, for windows and for words of any elements."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from openinfer.affine import Index, extent_of
from openinfer.compute import Computation, Tensor
from openinfer.compute.columns import columns_of, in_columns, without_single_places
from openinfer.compute.evaluate import evaluate
from openinfer.compute.reading import parse_computation
from openinfer.compute.verify import verify
from openinfer.dtypes import I32
from openinfer.plan.columns import pair_words

WINDOW = """\
def conv(x: i32[2, 6, 5], w: i32[4, 2, 3, 3], s: i32[4], /, y: i32[4, 3, 5]):
    for o, i, j in grid(4, 3, 5):
        for c, p, q in unordered(2, 3, 3):
            total0 = start(s[o])
            term0 = sdot4(fill(x[c, 2 * i + p - 1, j + q - 1], i32(-117901064)), w[o, c, p, q], i32(0))
            total0 = total0 + term0
        y[o, i, j] = total0 * i32(2)
"""

PRODUCT = """\
def product(x: i32[4, 1, 3], w: i32[3, 6], s: i32[6], /, y: i32[4, 1, 6]):
    for i, g, j in grid(4, 1, 6):
        for k in unordered(3):
            total0 = start(s[j])
            term0 = sdot4(x[i, g, k], w[k, j], i32(0))
            total0 = total0 + term0
        y[i, g, j] = total0
"""

BYTES = """\
def row(x: i8[13], w: i32[2, 2], s: i32[2], /, y: i32[2, 4]):
    for o, i in grid(2, 4):
        for k in unordered(2):
            total0 = start(s[o])
            term0 = sdot4(word(x[2 * i + 3 * k], x[2 * i + 3 * k + 1], x[2 * i + 3 * k + 2], x[2 * i + 3 * k + 3]), \
w[o, k], i32(0))
            total0 = total0 + term0
        y[o, i] = total0
"""


def rewritten(computation: Computation, words: np.ndarray) -> tuple[Computation, np.ndarray]:
    """Return a computation in columns, and the weights that it has."""
    stage = without_single_places(computation.stages[0])
    parts = columns_of(stage)
    assert parts is not None
    made = in_columns(stage, parts, "columns")
    shape = [extent_of(axis) for axis in (made.channels[0], *made.folded)]
    x, w, *rest = computation.inputs
    tensors = (x, Tensor(w.name, I32, tuple(map(Index.of, shape))), *rest)
    changed = replace(computation, inputs=tensors, temporaries=(made.columns,), stages=(made.widening, made.products))
    return changed, pair_words(made.order, shape, words)


@pytest.mark.parametrize("text", [WINDOW, PRODUCT, BYTES], ids=["window", "product", "bytes"])
def test_sums_are_the_same(text: str) -> None:
    computation = parse_computation(text)
    numbers = np.random.default_rng(3)
    x, w, s = (
        numbers.integers(*(-128, 128) if tensor.dtype is not I32 else (-(2**31), 2**31), extents).astype(
            np.int32 if tensor.dtype is I32 else np.int8
        )
        for tensor in computation.inputs
        for extents in [[extent.constant or 0 for extent in tensor.shape]]
    )

    made, words = rewritten(computation, w)
    verify(made)

    np.testing.assert_array_equal(evaluate(made, [x, words, s]), evaluate(computation, [x, w, s]))


def test_an_element_of_an_image_is_widened_once() -> None:
    made, _ = rewritten(parse_computation(WINDOW), np.zeros((4, 2, 3, 3), np.int32))

    # Rows and columns that windows reach, words, and the two pairs of each.
    assert [extent.constant for extent in made.temporaries[0].shape] == [7, 7, 2, 2]


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (WINDOW, "sdot4(", "dot4("),
        (WINDOW, "w[o, c, p, q]", "w[o, c, p, p]"),
        (WINDOW, "x[c, 2 * i", "x[o, 2 * i"),  # one channel of the image for each, as in depthwise convolutions
        (WINDOW, "for o, i, j in grid(4, 3, 5)", "for o, i, j in grid(3, 3, 5)"),
        (WINDOW, "i32(0))\n", "i32(1))\n"),
        (PRODUCT, "w[k, j]", "w[k, j + i]"),
        (PRODUCT, "w[k, j]", "fill(w[k, j], i32(0))"),
        (PRODUCT, "x[i, g, k]", "x[0, g, k]"),
    ],
)
def test_other_sums_have_no_columns(text: str, old: str, new: str) -> None:
    assert old in text
    stage = without_single_places(parse_computation(text.replace(old, new)).stages[0])

    assert columns_of(stage) is None


def test_a_fold_of_one_term_has_columns() -> None:
    text = PRODUCT.replace("x: i32[4, 1, 3], w: i32[3, 6]", "x: i32[4, 1, 1], w: i32[1, 6]").replace(
        "unordered(3)", "unordered(1)"
    )
    numbers = np.random.default_rng(4)
    x, w = (numbers.integers(-(2**31), 2**31, shape).astype(np.int32) for shape in ((4, 1, 1), (1, 6)))
    made, words = rewritten(parse_computation(text), w)

    expected = evaluate(parse_computation(text), [x, w, np.zeros(6, np.int32)])
    np.testing.assert_array_equal(evaluate(made, [x, words, np.zeros(6, np.int32)]), expected)
