"""Sums whose order is free are compared with what is exact, within a bound that follows from their terms."""

from __future__ import annotations

import numpy as np
import pytest

from openinfer.dtypes import F16, F32, F64, I32
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.plugins.environment import Environment
from openinfer.testing.cases import cases
from openinfer.testing.checks import wrong
from openinfer.testing.oracle import known_oracles
from openinfer.testing.sum_errors import counted_sums, sum_error
from openinfer.testing.summing import total_of_products

ENVIRONMENT = Environment.default()


def test_products_are_added_up_without_rounding() -> None:
    third = 1 / 3
    assert total_of_products([(1e16, 1.0), (1.0, 1.0), (-1e16, 1.0)]) == 1.0
    assert total_of_products([(third, third), (-(third * third),)]) != 0.0
    assert total_of_products([(float("inf"), 1.0), (1.0, 1.0)]) == float("inf")


def test_the_bound_of_a_product_follows_from_its_terms() -> None:
    a, b = np.array([[1.0, -2.0, 3.0]]), np.array([[4.0], [5.0], [6.0]])
    call = call_of(ENVIRONMENT.op("matmul"), [TensorType(F32, (1, 3)), TensorType(F32, (3, 1))], {})
    error = sum_error(call, (a, b))
    assert error is not None
    np.testing.assert_array_equal(error(), [[3 * 2.0**-23 * (4 + 10 + 18)]])


def test_low_floats_are_bounded_as_their_accumulator() -> None:
    schema, types = ENVIRONMENT.op("matmul"), [TensorType(F16, (1, 1)), TensorType(F16, (1, 1))]
    one = np.ones((1, 1))
    narrow = sum_error(call_of(schema, types, {}), (one, one))
    wide = sum_error(call_of(schema, types, {"acc": F64}), (one, one))
    assert narrow is not None
    assert wide is not None
    assert (narrow().item(), wide().item()) == (2.0**-23, 2.0**-52)


def test_sums_of_integers_have_no_error() -> None:
    types = [TensorType(I32, (2, 2)), TensorType(I32, (2, 2))]
    assert sum_error(call_of(ENVIRONMENT.op("matmul"), types, {}), (None, None)) is None


@pytest.mark.parametrize("name", sorted(counted_sums()))
def test_an_element_beyond_its_bound_is_wrong(name: str) -> None:
    schema, oracle = ENVIRONMENT.op(name), known_oracles()[name]
    case = next(case for case in cases(schema, F32, ENVIRONMENT.dtypes) if case.shapes == "rough")
    inputs = [None if array is None else array.astype(np.float64) for array in case.inputs()]
    (exact,) = oracle(inputs, case.call)
    error = sum_error(case.call, inputs)
    assert error is not None
    near, far = (exact + share * error() for share in (0.5, 4.0))
    assert wrong(schema, oracle, case, [near.astype(np.float32)]) == []
    assert wrong(schema, oracle, case, [far.astype(np.float32)])
