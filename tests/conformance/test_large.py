"""The conformance kit tries every operator on large shapes, and looks where blocks of kernels end."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from openinfer.builtin import openinfer_ops
from openinfer.ops.schema import Elementwise
from openinfer.plugins.environment import Environment
from openinfer.testing.cases import Case, cases
from openinfer.testing.checks import wrong
from openinfer.testing.elements import ByElement
from openinfer.testing.expectation import MOST_ELEMENTS, Expected, expected_of, places_in
from openinfer.testing.known_large import known_large
from openinfer.testing.large_examples import LARGE_TYPES
from openinfer.testing.oracle import known_oracles
from openinfer.testing.places import device_place
from openinfer.testing.values import exact

ENVIRONMENT = Environment.default()
CPU = device_place("cpu", ENVIRONMENT)


def large(op: str, dtype: str = "f32") -> list[Case]:
    return [
        case
        for case in cases(ENVIRONMENT.op(op), ENVIRONMENT.dtypes[dtype], ENVIRONMENT.dtypes)
        if case.shapes == "large"
    ]


def lines(case: Case, found: Sequence[np.ndarray[Any, Any]]) -> list[str]:
    return wrong(ENVIRONMENT.op(case.call.op), known_oracles()[case.call.op], case, found)


@pytest.mark.parametrize("schema", [s for s in openinfer_ops() if not s.counted], ids=lambda schema: schema.name)
def test_every_operator_is_tried_on_a_large_shape(schema: Any) -> None:
    types = schema.dtypes & LARGE_TYPES or schema.dtypes

    assert [case for dtype in types for case in large(schema.name, dtype)]


@pytest.mark.parametrize("op", ["add", "gelu", "softmax", "cumsum", "sdpa", "matmul", "flip", "scatter"])
def test_large_results_are_written_over_inputs_too(op: str) -> None:
    assert [case for case in large(op) if case.target is not None]


def test_rows_and_columns_of_many_elements_broadcast() -> None:
    every = cases(ENVIRONMENT.op("fma"), ENVIRONMENT.dtypes["f32"], ENVIRONMENT.dtypes)
    shapes = [
        tuple(given.shape for given in case.call.inputs if given is not None)
        for case in every
        if case.shapes == "broadcast" and case.target is None
    ]

    assert ((37, 131), (131,), (37, 1)) in shapes
    assert ((131,), (37, 1), (37, 131)) in shapes


def test_large_examples_are_of_known_operators_that_need_them() -> None:
    schemas = {schema.name: schema for schema in openinfer_ops()}

    assert set(known_large()) <= set(schemas)
    assert not [name for name in known_large() if isinstance(schemas[name].definition, Elementwise)]


@pytest.mark.parametrize("shape", [(67, 131), (2, 1111), (5, 131, 37), (20_011,), (3, 1, 67, 61)])
def test_places_are_corners_and_both_sides_of_powers_of_two(shape: tuple[int, ...]) -> None:
    places = places_in(shape)

    assert places == places_in(shape)
    assert len(set(places)) == len(places) < math.prod(shape) // 10
    assert set(np.ndindex(*(2 if extent > 1 else 1 for extent in shape))) <= {
        tuple(0 if at == 0 else 1 if at == extent - 1 else -1 for at, extent in zip(place, shape, strict=True))
        for place in places
    }
    for axis, extent in enumerate(shape):
        along = {place[axis] for place in places}
        assert {edge for power in (8, 16, 32, 64, 1024) for edge in (power - 1, power) if edge < extent} <= along


def test_all_of_a_small_result_is_checked_and_some_of_a_large_one() -> None:
    oracle = known_oracles()["transpose"]
    assert isinstance(oracle, ByElement)

    def expected(rows: int) -> Expected:
        x = np.arange(rows * 64.0).reshape(rows, 64)
        call = replace(large("transpose")[0].call, settings={"perm": (1, 0)})
        return expected_of(oracle, [x], call)[0]

    whole, some = expected(MOST_ELEMENTS // 64), expected(MOST_ELEMENTS // 64 + 1)

    assert whole.places is None
    assert whole.values.shape == whole.shape
    assert some.places is not None
    assert some.values.tolist() == [float(row + column * 64) for row, column in some.places]
    assert whole.place((3, 4)) == (3, 4)
    assert some.place((5,)) == some.places[5]


@pytest.mark.parametrize("op", ["matmul", "conv2d", "transpose", "qmatmul", "gather", "triu", "max_pool2d", "softmax"])
def test_one_wrong_element_at_the_end_of_a_large_result_is_found(op: str) -> None:
    for case in large(op):
        (right,) = CPU.run([case])[0]
        changed = np.array(right, order="C")
        changed.reshape(-1)[-1:].view(np.uint8)[-1] ^= 0x41  # the sign, and a large step in size

        (line,) = lines(case, [changed])

        assert lines(case, [right]) == []
        assert f"element {[extent - 1 for extent in right.shape]} is " in line


@pytest.mark.parametrize(("op", "block"), [("linear", 64), ("cumsum", 128), ("avg_pool1d", 1024), ("concat", 32)])
def test_a_block_that_is_left_out_is_found(op: str, block: int) -> None:
    case = large(op)[0]
    (right,) = CPU.run([case])[0]
    changed = np.array(right)
    changed[..., block : 2 * block] = 99.0

    (line,) = lines(case, [changed])

    assert "expected" in line


def test_what_is_not_checked_is_distinguished_from_what_is() -> None:
    case = large("matmul")[0]
    (right,) = CPU.run([case])[0]

    (line,) = lines(case, [right + 100])

    places = places_in(right.shape)
    assert f"({len(places)} of the {len(places)} checked wrong)" in line


def test_large_values_are_exact_whatever_the_order_of_sums() -> None:
    for case in large("matmul"):
        a, b = (exact(array, ENVIRONMENT.dtypes["f32"]) for array in case.inputs() if array is not None)
        if case.settings.get("trans_a"):
            a, b = a.T, b.T
        sums = a @ b
        assert (sums.astype(np.float32) == sums).all()
