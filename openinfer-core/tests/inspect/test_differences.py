"""Differences between values, against definitions done one element at a time with Python's numbers."""

from __future__ import annotations

import math
import struct

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openinfer.dtypes import BY_NAME
from openinfer.inspect.differences import difference
from openinfer.simulate.values import Tensor
from openinfer.tolerances import BETWEEN_DEVICES, EXACT, Tolerance

STORAGE = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f8": ml_dtypes.float8_e5m2,
    "i32": np.int32,
    "i64": np.int64,
    "u64": np.uint64,
    "bool": np.bool_,
}


def tensor(dtype: str, values: object) -> Tensor:
    array = np.asarray(values, STORAGE[dtype])
    return Tensor(BY_NAME[dtype], array.shape, array)


def test_equal_values_do_not_differ() -> None:
    for dtype in STORAGE:
        found = difference(tensor(dtype, [0, 1, 1]), tensor(dtype, [0, 1, 1]), EXACT)
        assert (found.is_within, found.absolute, found.relative, found.ulps) == (True, 0.0, 0.0, 0)


def test_the_worst_element_is_named_by_its_place() -> None:
    found = difference(tensor("f32", [[1, 2], [3, 4]]), tensor("f32", [[1, 2.5], [3, 3]]), BETWEEN_DEVICES["f32"])
    assert (found.where, found.expected, found.found) == ((1, 1), 4.0, 3.0)
    assert (found.beyond, found.elements, found.absolute) == (2, 4, 1.0)
    assert found.relative == pytest.approx(0.25)


@pytest.mark.rule("dtypes.drift.1")
def test_either_bound_is_enough() -> None:
    tolerance = Tolerance(0.5, 0.01)
    assert difference(tensor("f32", 1.0), tensor("f32", 1.4), tolerance).is_within
    assert difference(tensor("f32", 1000.0), tensor("f32", 1009.0), tolerance).is_within
    assert not difference(tensor("f32", 10.0), tensor("f32", 10.6), tolerance).is_within


@pytest.mark.rule("dtypes.drift.1")
def test_values_other_than_numbers_have_to_be_the_same() -> None:
    nan, inf = math.nan, math.inf
    assert difference(tensor("f32", [nan, inf, -inf]), tensor("f32", [nan, inf, -inf]), EXACT).is_within
    one_nan = difference(tensor("f32", [nan, 1]), tensor("f32", [0, 1]), Tolerance(1e9, 1e9))
    assert (one_nan.beyond, one_nan.absolute, one_nan.ulps) == (1, inf, None)
    assert difference(tensor("f32", [inf]), tensor("f32", [-inf]), Tolerance(1e9, 1e9)).beyond == 1
    far = difference(tensor("f32", [inf]), tensor("f32", [3.4028235e38]), Tolerance(1e9, 1e9))
    assert (far.beyond, far.ulps) == (1, 1)


def test_zeros_of_both_signs_are_equal() -> None:
    assert difference(tensor("f32", [0.0]), tensor("f32", [-0.0]), EXACT).is_within


@pytest.mark.rule("dtypes.drift.2")
def test_integers_and_bools_are_exact() -> None:
    found = difference(tensor("u64", [2**64 - 1, 5]), tensor("u64", [0, 5]), EXACT)
    assert (found.beyond, found.ulps) == (1, 2**64 - 1)
    found = difference(tensor("i64", [2**63 - 1]), tensor("i64", [2**63 - 2]), EXACT)
    assert (found.beyond, found.ulps) == (1, 1)
    assert difference(tensor("bool", [True, False]), tensor("bool", [True, True]), EXACT).where == (1,)


def test_no_elements_do_not_differ() -> None:
    assert difference(tensor("f32", np.zeros((0, 3))), tensor("f32", np.zeros((0, 3))), EXACT).is_within


def ordered(value: float) -> int:
    """The number of a float among all f32, in ascending order; zeros of both signs are one."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return bits if bits < 2**31 else -(bits - 2**31)


floats = st.floats(width=32, allow_nan=False)


@given(st.lists(st.tuples(floats, floats), min_size=1, max_size=8))
def test_steps_between_floats_are_counted_by_their_order(pairs: list[tuple[float, float]]) -> None:
    left, right = zip(*pairs, strict=True)
    found = difference(tensor("f32", left), tensor("f32", right), EXACT)
    assert found.ulps == max(abs(ordered(a) - ordered(b)) for a, b in pairs)


@given(st.lists(st.tuples(floats, floats), min_size=1, max_size=8), st.floats(0, 2), st.floats(0, 2))
def test_elements_beyond_are_those_of_the_definition(
    pairs: list[tuple[float, float]], absolute: float, relative: float
) -> None:
    left, right = zip(*pairs, strict=True)
    found = difference(tensor("f32", left), tensor("f32", right), Tolerance(absolute, relative))

    def close(a: float, b: float) -> bool:
        if a == b or math.isinf(a) or math.isinf(b):
            return a == b
        return abs(a - b) <= absolute or abs(a - b) / max(abs(a), abs(b)) <= relative

    assert found.beyond == sum(not close(a, b) for a, b in pairs)


@pytest.mark.parametrize(("dtype", "step"), [("f64", 2.0**-52), ("f16", 2.0**-10), ("bf16", 2.0**-7), ("f8", 0.25)])
def test_one_unit_in_the_last_place_of_every_type(dtype: str, step: float) -> None:
    assert difference(tensor(dtype, [1.0]), tensor(dtype, [1.0 + step]), EXACT).ulps == 1
    assert difference(tensor(dtype, [-1.0]), tensor(dtype, [-1.0 - 2 * step]), EXACT).ulps == 2
