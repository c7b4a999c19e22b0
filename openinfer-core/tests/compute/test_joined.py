"""Joined computations compute what their parts compute one after the other, and only those parts that gain by it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from openinfer.affine import Index
from openinfer.compute import Builder, Computation, Tensor, verify
from openinfer.compute.elementwise import elementwise, expression_of
from openinfer.compute.evaluate import evaluate
from openinfer.compute.follow import followed
from openinfer.compute.in_order import keeps_order
from openinfer.compute.in_place import overwritable
from openinfer.compute.inline import inlined
from openinfer.dtypes import F16, F32, DType
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.ops.computations import computation_of
from openinfer.plugins.environment import Environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.expr.tree import Expr
    from openinfer.ops.calls import OpCall

    Array = np.ndarray

X, Y = "x0", "y0"
RESULT = "result"


def tensor(name: str, *shape: int, dtype: DType = F32) -> Tensor:
    return Tensor(name, dtype, tuple(map(Index.of, shape)))


def first(number: int = 0) -> Expr:
    return tree.Input(number, F32)


def scaled(source: Tensor, made: Tensor) -> Computation:
    """Return 3x + 1, rounded to the type of the result."""
    value = tree.add(tree.mul(first(), tree.literal(3, F32)), tree.literal(1, F32))
    return elementwise("scaled", tree.cast(value, made.dtype), [source], made)


def added(one: Tensor, other: Tensor, made: Tensor) -> Computation:
    parts = [tree.cast(tree.Input(n, each.dtype), F32) for n, each in enumerate((one, other))]
    return elementwise("added", tree.add(*parts), [one, other], made)


def squared(source: Tensor, made: Tensor) -> Computation:
    return elementwise("squared", tree.mul(first(), first()), [source], made)


def transposed(source: Tensor, made: Tensor) -> Computation:
    k = Builder("transposed", [source], [made])
    i, j = k.axes(*made.shape)
    k.outputs[0][i, j] = k.inputs[0][j, i]
    return k.computation()


def row_sums(source: Tensor, made: Tensor) -> Computation:
    k = Builder("row_sums", [source], [made])
    i, r = k.axes(*source.shape)
    k.outputs[0][i] = k.sum(k.inputs[0][i, r], over=(r,))
    return k.computation()


def product(left: Tensor, right: Tensor, made: Tensor) -> Computation:
    k = Builder("product", [left, right], [made])
    i, j = k.axes(*made.shape)
    r = k.axis(left.shape[1])
    k.outputs[0][i, j] = k.sum(k.inputs[0][i, r] * k.inputs[1][r, j], over=(r,))
    return k.computation()


def shifted(source: Tensor, made: Tensor) -> Computation:
    k = Builder("shifted", [source], [made])
    i, j = k.axes(*made.shape)
    k.outputs[0][i, j] = k.inputs[0].within(i, j - 1, fill=0)
    return k.computation()


def run(computation: Computation, arrays: Mapping[str, Array]) -> Array:
    verify(computation)
    return evaluate(computation, [arrays[each.name] for each in computation.inputs])[0]


def one_after_the_other(producer: Computation, consumer: Computation, arrays: Mapping[str, Array]) -> Array:
    return run(consumer, {**arrays, RESULT: run(producer, arrays)})


MATRIX, OTHER, HALF = tensor(X, 3, 4), tensor("x1", 3, 4), tensor(RESULT, 3, 4, dtype=F16)
BETWEEN, TURNED = tensor(RESULT, 3, 4), tensor(RESULT, 4, 3)
ARRAYS = {
    X: np.linspace(-1, 2, 12, dtype=np.float32).reshape(3, 4),
    "x1": np.arange(12, dtype=np.float32).reshape(3, 4),
}


@pytest.mark.parametrize(
    ("producer", "consumer"),
    [
        (scaled(MATRIX, BETWEEN), added(BETWEEN, OTHER, tensor(Y, 3, 4))),
        (scaled(MATRIX, BETWEEN), squared(BETWEEN, tensor(Y, 3, 4))),
        (scaled(MATRIX, HALF), added(HALF, OTHER, tensor(Y, 3, 4))),
        (scaled(MATRIX, BETWEEN), transposed(BETWEEN, tensor(Y, 4, 3))),
        (scaled(MATRIX, BETWEEN), row_sums(BETWEEN, tensor(Y, 3))),
        (shifted(MATRIX, BETWEEN), scaled(BETWEEN, tensor(Y, 3, 4))),
        (transposed(MATRIX, TURNED), scaled(TURNED, tensor(Y, 4, 3))),
    ],
    ids=lambda each: each.name,
)
def test_an_expression_is_evaluated_where_its_result_was_read(producer: Computation, consumer: Computation) -> None:
    joined = inlined(producer, consumer, RESULT)

    assert joined is not None
    assert RESULT not in [each.name for each in joined.inputs]
    np.testing.assert_array_equal(run(joined, ARRAYS), one_after_the_other(producer, consumer, ARRAYS))


@pytest.mark.parametrize(
    ("producer", "consumer"),
    [
        # Each element would be computed for every column of the product.
        (scaled(MATRIX, BETWEEN), product(BETWEEN, tensor("x2", 4, 5), tensor(Y, 3, 5))),
        # A row would be computed for every row of the sum.
        (scaled(tensor(X, 4), tensor(RESULT, 4)), added(tensor(RESULT, 4), OTHER, tensor(Y, 3, 4))),
        # The fold would walk down columns.
        (transposed(MATRIX, TURNED), row_sums(TURNED, tensor(Y, 4))),
        # The element is read under a condition.
        (scaled(MATRIX, BETWEEN), shifted(BETWEEN, tensor(Y, 3, 4))),
        (row_sums(MATRIX, tensor(RESULT, 3)), scaled(tensor(RESULT, 3), tensor(Y, 3))),
    ],
    ids=lambda each: each.name,
)
def test_an_expression_stays_apart_where_joining_does_not_pay(producer: Computation, consumer: Computation) -> None:
    assert inlined(producer, consumer, RESULT) is None


def test_constants_are_evaluated_anywhere() -> None:
    constant = elementwise("two", tree.literal(2, F32), [], tensor(RESULT, 4))
    joined = inlined(constant, added(tensor(RESULT, 4), OTHER, tensor(Y, 3, 4)), RESULT)

    assert joined is not None
    np.testing.assert_array_equal(run(joined, ARRAYS), ARRAYS["x1"] + 2)


@pytest.mark.parametrize(
    ("producer", "consumer"),
    [
        (row_sums(MATRIX, tensor(RESULT, 3)), scaled(tensor(RESULT, 3), tensor(Y, 3))),
        (row_sums(MATRIX, tensor(RESULT, 3)), added(tensor(RESULT, 3), tensor("x2", 3), tensor(Y, 3))),
        (transposed(MATRIX, TURNED), scaled(TURNED, tensor(Y, 4, 3))),
    ],
    ids=lambda each: each.name,
)
def test_an_expression_is_evaluated_where_its_operand_was_stored(producer: Computation, consumer: Computation) -> None:
    arrays = {**ARRAYS, "x2": np.arange(3, dtype=np.float32)}
    joined = followed(producer, consumer, RESULT)

    assert joined is not None
    np.testing.assert_array_equal(run(joined, arrays), one_after_the_other(producer, consumer, arrays))


def test_a_result_that_is_read_at_another_place_is_stored() -> None:
    assert followed(transposed(MATRIX, TURNED), transposed(TURNED, tensor(Y, 3, 4)), RESULT) is None


def test_an_elementwise_computation_returns_its_expression() -> None:
    computation = added(BETWEEN, tensor("x1", 4), tensor(Y, 3, 4))
    expr = expression_of(computation)

    assert expr is not None
    assert elementwise("added", expr, computation.inputs, computation.outputs[0]) == computation
    assert expression_of(transposed(MATRIX, tensor(Y, 4, 3))) is None


@pytest.mark.parametrize(
    ("computation", "free"),
    [
        (scaled(MATRIX, tensor(Y, 3, 4)), {X}),
        (added(MATRIX, OTHER, tensor(Y, 3, 4)), {X, "x1"}),
        (added(MATRIX, tensor("x1", 4), tensor(Y, 3, 4)), {X}),
        (scaled(MATRIX, tensor(Y, 3, 4, dtype=F16)), set()),
        (transposed(tensor(X, 3, 3), tensor(Y, 3, 3)), set()),
        (shifted(MATRIX, tensor(Y, 3, 4)), set()),
        (product(tensor(X, 3, 3), tensor("x1", 3, 3), tensor(Y, 3, 3)), set()),
    ],
    ids=lambda each: each.name if isinstance(each, Computation) else str(sorted(each)),
)
def test_inputs_may_be_overwritten_that_are_read_only_at_the_place_that_is_written(
    computation: Computation, free: set[str]
) -> None:
    assert overwritable(computation, Y) == free


def test_the_operand_of_an_epilogue_may_be_overwritten() -> None:
    sums = product(tensor(X, 3, 3), tensor("x1", 3, 3), tensor(RESULT, 3, 3))
    joined = followed(sums, added(tensor(RESULT, 3, 3), tensor("x2", 3, 3), tensor(Y, 3, 3)), RESULT)

    assert joined is not None
    assert overwritable(joined, Y) == {"x2"}


def test_an_input_that_a_later_stage_reads_is_kept() -> None:
    k = Builder("twice", [MATRIX], [tensor(Y, 3, 4), tensor("y1", 3, 4)])
    i, j = k.axes(3, 4)
    k.outputs[0][i, j] = k.inputs[0][i, j] + 1
    k.outputs[1][i, j] = k.inputs[0][i, j] + 2

    assert overwritable(k.computation(), Y) == set()


def call(op: str, shape: tuple[int, ...], settings: Mapping[str, object], declared: tuple[int, ...] | None) -> OpCall:
    made = [] if declared is None else [TensorType(F32, declared)]
    return call_of(Environment.default().op(op), [TensorType(F32, shape)], settings, made)


@pytest.mark.parametrize(
    ("op", "shape", "settings", "keeps"),
    [
        ("reshape", (2, 3, 4, 5), {"shape": (8, 15)}, True),
        ("reshape", (8, 15), {"shape": (2, 3, 4, 5)}, True),
        ("reshape", (4, 6, 5), {"shape": (2, 3, 2, 10)}, True),
        ("reshape", (7, 3), {"shape": (3, 7)}, True),
        ("flatten", (2, 3, 5), {"axis": 2}, True),
        ("squeeze", (1, 2, 1, 3), {}, True),
        ("unsqueeze", (2, 3), {"axes": (0, 2)}, True),
        ("transpose", (2, 1, 5), {"perm": (1, 0, 2)}, True),
        ("transpose", (2, 5), {}, False),
        ("flip", (3,), {"axes": (0,)}, False),
        ("expand", (1, 3), {"shape": (1, 1, 3)}, True),
        ("expand", (1, 3), {"shape": (2, 3)}, False),
    ],
)
def test_reshapes_are_seen_to_keep_the_order_of_elements(
    op: str, shape: tuple[int, ...], settings: Mapping[str, object], keeps: bool
) -> None:
    computation = computation_of(Environment.default().op(op), call(op, shape, settings, None))
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)

    assert keeps_order(computation) is keeps
    is_same = np.array_equal(run(computation, {X: array}).reshape(-1), array.reshape(-1))
    assert is_same is keeps
