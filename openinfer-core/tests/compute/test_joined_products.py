"""Products of bytes in rows: the same sums, from rows of the image and from copies with a border."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from openinfer.affine import Index
from openinfer.compute import Computation, Read, Tensor
from openinfer.compute.byte_columns import sum_of_bytes
from openinfer.compute.evaluate import evaluate
from openinfer.compute.joined_products import InRows, copied_rows, rows_of_image
from openinfer.compute.reading import parse_computation
from openinfer.compute.verify import verify
from openinfer.dtypes import I8
from openinfer.layout import row_major
from openinfer.plan.joined_products import padded_rows

WINDOW = """\
def conv(x: i8[6, 5, 3], w: i8[4, 3, 3, 3], s: i32[4], /, y: i32[4, 3, 5]):
    for o, i, j in grid(4, 3, 5):
        for c, p, q in unordered(3, 3, 3):
            total0 = start(s[o])
            term0 = cast(fill(x[2 * i + p - 1, j + q - 1, c], i8(-7)), i32) * cast(w[o, c, p, q], i32)
            total0 = total0 + term0
        y[o, i, j] = total0 * i32(2)
"""

PRODUCT = """\
def product(x: i8[2, 16], w: i8[2, 16, 5], s: i32[5], /, y: i32[5]):
    for j in grid(5):
        for k, m in unordered(2, 16):
            total0 = start(s[j])
            term0 = cast(w[k, m, j], i32) * cast(x[k, m], i32)
            total0 = total0 + term0
        y[j] = total0
"""


def rows_of(computation: Computation, *, is_copied: bool) -> InRows | None:
    (stage,), x = computation.stages, computation.inputs[0]
    parts = sum_of_bytes(stage)
    assert parts is not None
    image = stage.elements[parts.image]
    assert isinstance(image, Read)
    address = row_major(x.shape).address(image.at)
    return copied_rows(stage, parts, address, "rows") if is_copied else rows_of_image(stage, parts, address)


@pytest.mark.parametrize(("text", "is_copied", "length"), [(WINDOW, True, 32), (PRODUCT, False, 32)])
def test_sums_are_the_same(text: str, is_copied: bool, length: int) -> None:
    computation = parse_computation(text)
    numbers = np.random.default_rng(3)
    x, w, s = (numbers.integers(-128, 128, [n.constant or 0 for n in t.shape]) for t in computation.inputs)
    x, w, s = x.astype(np.int8), w.astype(np.int8), s.astype(np.int32)

    made = rows_of(computation, is_copied=is_copied)
    assert made is not None
    tensors = list(computation.inputs)
    tensors[1] = Tensor("w", I8, tuple(map(Index.of, made.shape)))
    temporaries = () if made.rows is None else (made.rows,)
    stages = (made.products,) if made.copy is None else (made.copy, made.products)
    changed = replace(computation, inputs=tuple(tensors), temporaries=temporaries, stages=stages)
    verify(changed)

    assert made.shape[-1] == length
    packed = padded_rows(made.order, made.shape, w)
    np.testing.assert_array_equal(evaluate(changed, [x, packed, s]), evaluate(computation, [x, w, s]))


@pytest.mark.parametrize(
    "changes",
    [
        {"x: i8[2, 16], w: i8[2, 16": "x: i8[2, 15], w: i8[2, 15", "(2, 16)": "(2, 15)"},
        {"x: i8[2, 16]": "x: i8[2, 32]", "x[k, m]": "x[k, 2 * m]"},
        {"x[k, m]": "fill(x[k, m - 1], i8(0))"},
    ],
    ids=["no whole vector", "no row", "a border"],
)
def test_other_images_have_no_rows(changes: dict[str, str]) -> None:
    text = PRODUCT
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)

    assert rows_of(parse_computation(text), is_copied=False) is None


@pytest.mark.parametrize(("old", "new"), [("x: i8", "x: u8"), ("i32(2)", "i32(2)"), ("w[o, c, p, q]", "w[o, c, p, p]")])
def test_other_sums_have_no_parts(old: str, new: str) -> None:
    text = WINDOW.replace(old, new).replace("i8(-7)", "u8(7)" if new == "x: u8" else "i8(-7)")
    stage = parse_computation(text).stages[0]

    assert (sum_of_bytes(stage) is None) == (old != new)
