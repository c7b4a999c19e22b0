"""Computations mean what NumPy computes, read back from their text, and are refused where they mean nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from built_computations import built, one_stage, tensor

from openinfer.affine import Index, Var
from openinfer.compute import Builder, Computation, ComputationError, Order, Read, Stage, Value, verify
from openinfer.compute.evaluate import RefusedError, evaluate
from openinfer.compute.reading import parse_computation
from openinfer.compute.text import computation_text
from openinfer.dtypes import BOOL, F16, F32, I32, I64
from openinfer.errors import OpenInferError
from openinfer.expr import tree

if TYPE_CHECKING:
    pass


def values(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def matmul() -> Computation:
    k = Builder("matmul", (tensor("a", 3, 5), tensor("b", 5, 4)), (tensor("y", 3, 4),))
    a, b = k.given
    i, j = k.axes(3, 4)
    r = k.axis(5)
    k.outputs[0][i, j] = k.sum(a[i, r] * b[r, j], over=(r,))
    return built(k)


def test_a_product_of_matrices() -> None:
    a, b = values(3, 5), values(5, 4, seed=2)
    (y,) = evaluate(matmul(), (a, b))
    np.testing.assert_allclose(y, a @ b, rtol=1e-6, atol=1e-6)


def test_the_text_of_a_product() -> None:
    assert computation_text(matmul()) == (
        "def matmul(a: f32[3, 5], b: f32[5, 4], /, y: f32[3, 4]):\n"
        "    for i0, i1 in grid(3, 4):\n"
        "        for i2 in unordered(5):\n"
        "            total0 = start(0.0)\n"
        "            term0 = a[i0, i2] * b[i2, i1]\n"
        "            total0 = total0 + term0\n"
        "        y[i0, i1] = total0\n"
    )


def test_places_outside_of_a_tensor_are_filled() -> None:
    k = Builder("smooth", (tensor("x", 6),), (tensor("y", 6),))
    (x,) = k.given
    i = k.axis(6)
    t = k.axis(3)
    k.outputs[0][i] = k.sum(x.within(i + t - 1, fill=0.0), over=(t,), order=Order.SEQUENTIAL)
    x_values = values(6)
    (y,) = evaluate(built(k), (x_values,))
    np.testing.assert_allclose(y, np.convolve(x_values, np.ones(3, np.float32), "same"), rtol=1e-6)


def test_stages_follow_one_another_through_temporaries() -> None:
    k = Builder("softmax", (tensor("x", 4, 7),), (tensor("y", 4, 7),))
    (x,) = k.given
    peak, weight = k.temporary(F32, 4), k.temporary(F32, 4, 7)
    i, j = k.axes(4, 7)
    peak[i] = k.fold(x[i, j], (j,), tree.maximum, order=Order.ANY)
    weight[i, j] = k.apply(tree.exp, x[i, j] - peak[i])
    r = k.axis(7)
    total = k.temporary(F32, 4)
    total[i] = k.sum(weight[i, r], over=(r,))
    k.outputs[0][i, j] = weight[i, j] / total[i]
    x_values = values(4, 7)
    (y,) = evaluate(built(k), (x_values,))
    e = np.exp(x_values - x_values.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-6)


@pytest.mark.parametrize(("places", "terms"), [(1, 1), (6, 4), (5, 1 << 16), (1 << 21, 3)])
def test_blocks_of_places_and_terms_leave_the_bits(monkeypatch: pytest.MonkeyPatch, places: int, terms: int) -> None:
    a, b = values(3, 5), values(5, 4)
    (whole,) = evaluate(matmul(), (a, b))
    monkeypatch.setattr("openinfer.compute.evaluate.MOST_PLACES", places)
    monkeypatch.setattr("openinfer.compute.evaluate.MOST_TERMS", terms)
    (y,) = evaluate(matmul(), (a, b))
    np.testing.assert_array_equal(y, whole)


def gather() -> Computation:
    k = Builder(
        "gather", (tensor("x", 7, 2, dtype=F16), tensor("indices", 3, dtype=I32)), (tensor("y", 3, 2, dtype=F16),)
    )
    x, indices = k.given
    i, j = k.axes(3, 2)
    row = k.lookup(indices[i].cast(I64), 7, "indices are 0 to 6")
    k.outputs[0][i, j] = x[row, j]
    return built(k)


def test_an_index_is_an_element_of_a_tensor() -> None:
    x, indices = values(7, 2).astype(np.float16), np.array([6, 0, 3], np.int32)
    (y,) = evaluate(gather(), (x, indices))
    np.testing.assert_array_equal(y, x[indices])


def test_an_index_out_of_range_is_refused() -> None:
    with pytest.raises(RefusedError, match="indices are 0 to 6"):
        evaluate(gather(), (np.zeros((7, 2), np.float16), np.array([0, 7, 1], np.int32)))


def test_updates_of_one_element_follow_one_another() -> None:
    k = Builder("scatter_add", (tensor("x", 4), tensor("at", 5, dtype=I64), tensor("u", 5)), (tensor("y", 4),))
    x, at, u = k.given
    y = k.outputs[0]
    i = k.axis(4)
    y[i] = x[i]
    j = k.axis(5)
    place = k.lookup(at[j], 4, "places are 0 to 3")
    y[place] = y[place] + u[j]
    x_values, places, updates = values(4), np.array([1, 3, 1, 1, 0]), values(5, seed=3)
    (found,) = evaluate(built(k), (x_values, places, updates))
    expected = x_values.copy()
    np.add.at(expected, places, updates)
    np.testing.assert_array_equal(found, expected)


def replaced_rows() -> Computation:
    k = Builder("scatter", (tensor("x", 3, 2), tensor("at", 4, dtype=I64), tensor("u", 4, 2)), (tensor("y", 3, 2),))
    x, at, u = k.given
    y = k.outputs[0]
    i = k.axes(3, 2)
    y[i] = x[i]
    row, column = k.axes(4, 2)
    place = k.lookup(at[row], 3, "places are 0 to 2")
    y[place, column] = u[row, column]
    return built(k)


def test_of_several_values_for_one_place_the_last_one_stays() -> None:
    x, updates = values(3, 2), values(4, 2, seed=3)
    (found,) = evaluate(replaced_rows(), (x, np.array([1, 1, 0, 1]), updates))
    np.testing.assert_array_equal(found, [updates[2], updates[3], x[2]])


def test_a_stage_that_stores_at_looked_up_indices_visits_the_axes_that_they_come_from_first() -> None:
    update = replaced_rows().stages[1]
    assert update.is_sequential
    assert [axis.extent for axis in update.axes] == [4, 2]


def test_a_tensor_that_is_stored_at_looked_up_indices_alone_is_refused() -> None:
    k = Builder("scatter", (tensor("at", 9, dtype=I64), tensor("u", 9)), (tensor("y", 3),))
    at, u = k.given
    j = k.axis(9)
    k.outputs[0][k.lookup(at[j], 3, "places are 0 to 2")] = u[j]
    with pytest.raises(ComputationError, match="y has 3 elements, stages store 0: store every element"):
        verify(k.computation())


def test_a_running_fold_keeps_every_total() -> None:
    k = Builder("cumsum", (tensor("x", 3, 5),), (tensor("y", 3, 5),))
    (x,) = k.given
    i, t = k.axes(3, 5)
    k.outputs[0][i, t] = k.fold(x[i, t], (t,), tree.add, start=0.0, running=True)
    x_values = values(3, 5)
    (y,) = evaluate(built(k), (x_values,))
    np.testing.assert_array_equal(y, np.cumsum(x_values, 1))


def test_totals_advance_together() -> None:
    k = Builder("argmax", (tensor("x", 4, 9),), (tensor("y", 4, dtype=I64),))
    (x,) = k.given
    i, j = k.axes(4, 9)

    def first_greatest(totals: list[tree.Expr], terms: list[tree.Expr]) -> list[tree.Expr]:
        better = tree.gt(terms[0], totals[0])
        return [tree.select(better, term, total) for total, term in zip(totals, terms, strict=True)]

    _, place = k.folds((x[i, j], k.position(j)), (j,), first_greatest, (None, None))
    k.outputs[0][i] = place
    x_values = np.round(values(4, 9))
    (y,) = evaluate(built(k), (x_values,))
    np.testing.assert_array_equal(y, x_values.argmax(1))


def test_stages_write_parts_of_a_tensor() -> None:
    k = Builder("concat", (tensor("a", 2, 3), tensor("b", 4, 3)), (tensor("y", 6, 3),))
    offset = 0
    for operand in k.inputs:
        assert operand is not None
        rows = operand.shape[0].constant
        assert rows is not None
        i, j = k.axes(rows, 3)
        k.outputs[0][i + offset, j] = operand[i, j]
        offset += rows
    a, b = values(2, 3), values(4, 3, seed=2)
    (y,) = evaluate(built(k), (a, b))
    np.testing.assert_array_equal(y, np.concatenate([a, b]))


def test_a_scalar_has_no_axes() -> None:
    k = Builder("double", (tensor("x"),), (tensor("y"),))
    (x,) = k.given
    k.outputs[0][()] = x[()] + x[()]
    (y,) = evaluate(built(k), (np.float32(1.5),))
    assert y.shape == ()
    assert y == 3.0


def test_an_empty_fold_is_its_start() -> None:
    k = Builder("sums", (tensor("x", 2, 0),), (tensor("y", 2),))
    (x,) = k.given
    i, j = k.axes(2, 0)
    k.outputs[0][i] = k.sum(x[i, j], over=(j,))
    (y,) = evaluate(built(k), (np.zeros((2, 0), np.float32),))
    np.testing.assert_array_equal(y, np.zeros(2))


def test_an_empty_stage_stores_nothing() -> None:
    k = Builder("copy", (tensor("x", 0, 3),), (tensor("y", 0, 3),))
    (x,) = k.given
    i, j = k.axes(0, 3)
    k.outputs[0][i, j] = x[i, j]
    (y,) = evaluate(built(k), (np.zeros((0, 3), np.float32),))
    assert y.shape == (0, 3)


def test_sizes_may_be_known_at_run_time_only() -> None:
    n = Var("n")
    i, r = Var("i", Index.of(n)), Var("r", 3)
    rows = Stage(
        tensor="y",
        axes=(i,),
        elements=(Read("x", (Index.of(i), Index()), F32),),
        value=tree.mul(tree.Input(0, F32), tree.literal(2.0, F32)),
        at=(Index.of(i),),
    )
    computation = Computation("double", (tensor("x", Index.of(n), 3),), (tensor("y", Index.of(n)),), (rows,), (), (n,))
    verify(computation)
    assert parse_computation(computation_text(computation)) == computation
    assert "/, y: f32[n], *, n):" in computation_text(computation)
    (y,) = evaluate(computation, (values(4, 3),), {"n": 4})
    np.testing.assert_array_equal(y, values(4, 3)[:, 0] * 2)
    del r


def test_a_shared_value_is_named_once() -> None:
    k = Builder("shared", (tensor("x", 3),), (tensor("y", 3),))
    (x,) = k.given
    i = k.axis(3)
    value: Value = x[i]
    for _ in range(60):
        value = value * value
    k.outputs[0][i] = value
    text = computation_text(built(k))
    assert len(text) < 4000


def test_elements_that_are_refused() -> None:
    k = Builder("checked", (tensor("x", 3, dtype=I32),), (tensor("y", 3, dtype=I32),))
    (x,) = k.given
    i = k.axis(3)
    k.refuse(x[i] < 0, "elements are not negative")
    k.outputs[0][i] = x[i]
    computation = built(k)
    np.testing.assert_array_equal(evaluate(computation, (np.array([1, 2, 0], np.int32),))[0], [1, 2, 0])
    with pytest.raises(RefusedError, match="not negative"):
        evaluate(computation, (np.array([1, -2, 0], np.int32),))


STAGE = matmul().stages[0]


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        (replace(STAGE, tensor="z"), "there is no tensor z"),
        (replace(STAGE, tensor="a"), "a is an input"),
        (replace(STAGE, axes=STAGE.axes[:1]), "the variable i1 in i1 is not bound"),
        (replace(STAGE, axes=(*STAGE.axes, Var("n", 2))), "stores to one place for every n"),
        (replace(STAGE, axes=(*STAGE.axes, STAGE.axes[0])), "two variables are called i0"),
        (
            replace(STAGE, at=(STAGE.at[1], STAGE.at[0])),
            "stores to y at i1 along dim 0, which may lie outside of 0 to 3",
        ),
        (replace(STAGE, at=STAGE.at[:1]), "y has 2 dims, found 1 indices"),
        (replace(STAGE, at=(STAGE.at[0], Index.of(Var("i2", 5)))), "uses a folded axis"),
        (replace(STAGE, value=tree.cast(STAGE.value, F16)), "the value is f16, y holds f32"),
        (replace(STAGE, value=tree.Input(7, F32)), "uses input 7, which the stage does not have"),
        (replace(STAGE, value=tree.cast(tree.Input(0, I32), F32)), "uses input 0 as i32, it is f32"),
        (
            replace(STAGE, elements=(Read("a", (Index.of(3), Index()), F32), STAGE.elements[1])),
            "reads a at 3 along dim 0",
        ),
        (
            replace(STAGE, elements=(Read("y", (Index(), Index()), F32), STAGE.elements[1])),
            "reads y, which it writes, at another place",
        ),
        (replace(STAGE, elements=(Read("a", STAGE.at, F16), STAGE.elements[1])), "reads a as f16, it holds f32"),
    ],
)
def test_a_stage_without_meaning_is_refused(stage: Stage, message: str) -> None:
    with pytest.raises(ComputationError, match="matmul, stage 0") as caught:
        verify(replace(matmul(), stages=(stage,)))
    assert message in str(caught.value)


def test_an_output_that_no_stage_writes_is_refused() -> None:
    with pytest.raises(ComputationError, match="no stage writes y"):
        verify(replace(matmul(), stages=()))


def test_a_definition_with_the_wrong_number_of_indices_is_refused() -> None:
    k = Builder("wrong", (tensor("x", 3, 4),), (tensor("y", 3),))
    (x,) = k.given
    with pytest.raises(ComputationError, match="x has 2 dims, found 1 indices"):
        _ = x[k.axis(3)]


def test_totals_of_two_folds_do_not_share_a_stage() -> None:
    k = Builder("wrong", (tensor("x", 3, 4),), (tensor("y", 3),))
    (x,) = k.given
    i, j = k.axes(3, 4)
    r = k.axis(4)
    with pytest.raises(ComputationError, match="totals of different folds"):
        k.outputs[0][i] = k.sum(x[i, j], over=(j,)) + k.sum(x[i, r], over=(r,))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "one `def`"),
        ("def f(:", "syntax of Python"),
        ("def f(x, /, y: f32[3]): pass", "the type of x"),
        ("def f(x: f32[3], /, y: f32[3]):\n    return", "a stage"),
        ("def f(x: f32[3], /, y: f32[3]):\n    for i in grid(3):\n        y[i] = q[i]", "an element of a tensor"),
        ("def f(x: f32[3], /, y: f32[3]):\n    for i in grid(3):\n        y[i] = x[i] + 1", "needs a type"),
        (
            "def f(x: f32[3], /, y: f32[3]):\n    for i in grid(3):\n        y[i] = sinus(x[i])",
            "unknown function 'sinus'",
        ),
        (
            "def f(x: f32[3], /, y: f32[3]):\n    for i in grid(3):\n        y[i] = exp(x[i], x[i])",
            "exp takes 1 arguments",
        ),
        ("def f(x: f32[3], /, y: f32[3]):\n    for i in grid(3):\n        y[q] = x[i]", "unknown index variable 'q'"),
        ("def f(x: f32[3], /, y: f32[3]):\n    for i in grid(3): pass", "an assignment"),
    ],
)
def test_text_that_is_not_a_computation_is_refused(text: str, message: str) -> None:
    with pytest.raises(OpenInferError, match=re.escape(message)):
        parse_computation(text)


def test_literals_of_every_type_read_back() -> None:
    k = Builder("literals", (tensor("x", 1),), (tensor("y", 1),))
    i = k.axis(1)
    parts = [k.constant(value, F32) for value in (0.1, -0.0, float("inf"), -1e-45, 3.0)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    flag = k.apply(tree.logical_not, k.constant(False, BOOL))
    total = k.apply(tree.select, flag, total, k.constant(-(2**40), I64).cast(F32))
    k.outputs[0][i] = total
    built(k)


def test_elements_compare_equal_in_any_order() -> None:
    def lookup_after_an_element(k: Builder) -> None:
        i = k.axis(3)
        place = k.lookup(k.given[1][i], 4, "places are 0 to 3")
        k.outputs[0][i] = k.given[0][i, 0] + k.given[0][i, place]

    def starts_that_are_elements(k: Builder) -> None:
        i, j = k.axes(3, 4)
        x = k.given[0]
        sums = k.folds(
            (x[i, j], x[i, 3 - j]),
            (j,),
            lambda t, e: [tree.add(a, b) for a, b in zip(t, e, strict=True)],
            (x[i, 0], x[i, 3]),
        )
        k.outputs[0][i] = sums[0] + sums[1]

    one_stage(lookup_after_an_element)
    one_stage(starts_that_are_elements)


def test_fills_differ_by_the_sign_of_zero_and_nan_is_one() -> None:
    def fills(k: Builder) -> None:
        i = k.axis(3)
        near = [k.given[0].within(i - 3, 0, fill=fill) for fill in (0.0, -0.0, float("nan"), float("nan"))]
        k.outputs[0][i] = 1.0 / near[0] + k.apply(tree.maximum, 1.0 / near[1], near[2] - near[3])

    assert len(one_stage(fills).stages[0].elements) == 3
