"""Axes that become one: lanes lie on all places that operands have in a row."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from openinfer.affine import Index, Var, is_mixed_radix, parse_index, rejoined
from openinfer.arch import TargetInfo
from openinfer.compute import Computation, verify
from openinfer.compute.evaluate import evaluate
from openinfer.compute.in_place import overwritable
from openinfer.compute.reading import parse_computation
from openinfer.compute.text import computation_text
from openinfer.layout import Layout, read_layout, row_major
from openinfer.loops.interpret import interpret
from openinfer.loops.text import kernel_text
from openinfer.lower import lowered
from openinfer.schedule import merged

FOUR_LANES = TargetInfo(vector_nbytes=16, registers=16)


def merged_all(text: str, layouts: dict[str, Layout] | None = None) -> Computation:
    computation = parse_computation(text)
    tensors = (*computation.inputs, *computation.outputs)
    known = {tensor.name: row_major(tensor.shape) for tensor in tensors} | (layouts or {})
    return replace(computation, stages=tuple(merged(stage, known) for stage in computation.stages))


PRODUCT = """\
def product(x: f32[3, 5], z: f32[3, 5], /, y: f32[3, 5]):
    for i, j in grid(3, 5):
        y[i, j] = x[i, j] * z[i, j]
"""


def test_a_product_of_matrices_in_rows_has_one_axis() -> None:
    product = merged_all(PRODUCT)
    verify(product)
    assert computation_text(product) == (
        "def product(x: f32[3, 5], z: f32[3, 5], /, y: f32[3, 5]):\n"
        "    for i in grid(15):\n"
        "        y[(i)//5, (i)%5] = x[(i)//5, (i)%5] * z[(i)//5, (i)%5]\n"
    )
    assert parse_computation(computation_text(product)) == product


def test_one_loop_has_lanes_and_one_rest() -> None:
    assert kernel_text(lowered(merged_all(PRODUCT), target=FOUR_LANES)) == (
        "def product(x: GLOBAL[f32, 15], z: GLOBAL[f32, 15], y: GLOBAL[f32, 15]):\n"
        "    for l0 in LANES(4):\n"
        "        y[l0] = x[l0] * z[l0]\n"
        "        y[l0 + 4] = x[l0 + 4] * z[l0 + 4]\n"
        "        y[l0 + 8] = x[l0 + 8] * z[l0 + 8]\n"
        "    y[12] = x[12] * z[12]\n"
        "    y[13] = x[13] * z[13]\n"
        "    y[14] = x[14] * z[14]\n"
    )


@pytest.mark.parametrize(
    ("operands", "value", "axes"),
    [
        ("x: f32[2, 3, 4]", "x[i, j, k]", [24]),
        ("x: f32[1]", "x[0]", [24]),
        ("x: f32[2]", "x[i]", [2, 12]),
        ("x: f32[3, 4]", "x[j, k]", [2, 12]),
        ("x: f32[4]", "x[k]", [6, 4]),
        ("x: f32[4, 3, 2]", "x[k, j, i]", [2, 3, 4]),
        ("x: f32[2, 3, 5]", "x[i, j, k]", [6, 4]),
        ("x: f32[2, 3, 5]", "fill(x[i, j, k - 1], 0.0)", [6, 4]),
        ("x: f32[2, 3, 4]", "cast(position(12*i + 4*j + k, i64), f32)", [24]),
        ("x: f32[2, 3, 4]", "cast(position(k, i64), f32)", [6, 4]),
    ],
)
def test_axes_merge_where_every_operand_steps_evenly(operands: str, value: str, axes: list[int]) -> None:
    text = f"def f({operands}, /, y: f32[2, 3, 4]):\n    for i, j, k in grid(2, 3, 4):\n        y[i, j, k] = {value}\n"
    (stage,) = merged_all(text).stages
    assert sorted(axis.extent or 0 for axis in stage.axes) == sorted(axes)
    verify(merged_all(text))
    computation = parse_computation(text)
    rng = np.random.default_rng(0)
    shape = [extent.evaluate({}) for extent in computation.inputs[0].shape]
    x = rng.standard_normal(shape, np.float32)
    (expected,) = evaluate(computation, [x])
    np.testing.assert_array_equal(evaluate(merged_all(text), [x])[0], expected)
    y = np.zeros(24, np.float32)
    interpret(lowered(merged_all(text), target=FOUR_LANES), {"x": x.reshape(-1), "y": y})
    np.testing.assert_array_equal(y.reshape(2, 3, 4), expected)


def test_axes_merge_in_the_order_in_which_elements_lie() -> None:
    last = read_layout("[2, 3, 4] as d1:3 d2:4 d0:2")
    text = """\
def f(x: f32[2, 3, 4], /, y: f32[2, 3, 4]):
    for c, h, w in grid(2, 3, 4):
        y[c, h, w] = x[c, h, w]
"""
    both = merged_all(text, {"x": last, "y": last})
    assert [axis.extent for axis in both.stages[0].axes] == [24]
    verify(both)
    assert overwritable(both, "y") == {"x"}
    assert [axis.extent for axis in merged_all(text, {"x": last}).stages[0].axes] == [2, 12]


def test_stages_that_fold_or_look_up_keep_their_axes() -> None:
    text = """\
def totals(x: f32[4, 5, 6], /, y: f32[4, 5]):
    for i, j in grid(4, 5):
        for k in unordered(6):
            total0 = start(0.0)
            term0 = x[i, j, k]
            total0 = total0 + term0
        y[i, j] = total0
"""
    assert merged_all(text) == parse_computation(text)


def test_digits_of_an_index_are_that_index_again() -> None:
    i = Var("i", 240)
    digits = (i // 20, i % 20 // 5, i % 20 % 5)
    assert rejoined(digits[0] * 20 + digits[1] * 5 + digits[2]) == Index.of(i)
    assert rejoined((i + 3) // 5 * 5 + (i + 3) % 5 + 1) == i + 4


@pytest.mark.parametrize(
    ("index", "is_apart"),
    [
        ("48*((i)%5) + (i)//5", True),
        ("47*((i)%5) + (i)//5", False),
        ("48*((i)%5)", None),
        ("48*((i)%7) + (i)//7", None),
        ("48*((i)%5) + (i)//5 + 240*i", None),
    ],
)
def test_digits_take_every_combination_of_values(index: str, is_apart: bool | None) -> None:
    i = Var("i", 240)
    assert is_mixed_radix(parse_index(index, {"i": i}), [i]) is is_apart


@pytest.mark.parametrize(
    ("index", "is_certain"),
    [
        ("n*i + j", True),  # i counts rows of n elements, j the elements of a row
        ("4*n*i + n*k + j", True),
        ("n*i + 4*j", None),  # j goes past the row
        ("n*n*i + n*j", None),
        ("m*i + j", None),  # rows of m elements may be shorter than n
    ],
)
def test_places_of_a_tensor_with_run_time_extents_lie_apart(index: str, is_certain: bool | None) -> None:
    n, m = Var("n"), Var("m")
    i, j, k = Var("i", 3), Var("j", Index.of(n)), Var("k", 4)
    parsed = parse_index(index, {var.name: var for var in (n, m, i, j, k)})

    assert is_mixed_radix(parsed, [i, j, k]) is is_certain

    for size in (1, 2, 7) if is_certain else ():
        extents = {"i": 3, "j": size, "k": 4 if k in parsed.variables() else 1}
        digits = [dict(zip(extents, each, strict=True)) for each in product(*map(range, extents.values()))]
        places = {parsed.evaluate({"n": size, "m": size, **each}) for each in digits}
        assert len(places) == len(digits)
