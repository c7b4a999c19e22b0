"""Codes of totals: an addition that rounds gives the codes of `quantize_linear`, where their range is proved."""

from __future__ import annotations

from fractions import Fraction
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openinfer.compute.requantise import LARGEST, magnitude, requantised
from openinfer.dtypes import BF16, F8, F16, F32, I8, I32, U8, DType
from openinfer.expr import linearise, tree
from openinfer.expr.numpy_renderer import compile_program

MULTIPLIERS = st.floats(2.0**-24, 1.0, width=32)
ZEROS = st.integers(-128, 255)


def scaled(multiplier: float, total: tree.Expr | None = None) -> tree.Expr:
    return tree.mul(tree.cast(total or tree.Input(~0, I32), F32), tree.literal(multiplier, F32))


def code_of(number: tree.Expr, zero: int, dtype: DType, *, truncated: bool = True) -> tree.Expr:
    """Return the code of a number as `quantize_linear` defines it."""
    code = tree.add(tree.round_even(number), tree.literal(float(zero), F32))
    return tree.cast(tree.trunc(code) if truncated else code, dtype)


def functions(expr: tree.Expr) -> set[str]:
    return {step.function for step in linearise(expr).instructions}


def evaluated(expr: tree.Expr, totals: list[int]) -> list[int]:
    renamed = tree.substitute(expr, {~0: tree.Input(0, I32)})
    out = np.empty(len(totals), np.int8 if expr.dtype is I8 else np.uint8)
    compile_program(linearise(renamed))([np.array(totals, np.int32)], out)
    return out.tolist()


def exact(total: int, multiplier: float, zero: int, dtype: DType) -> int:
    """Return a code from the one product that f32 rounds, in fractions from there on."""
    product = Fraction(float(np.float32(total) * np.float32(multiplier)))
    return min(max(round(product) + zero, int(dtype.minimum or 0)), int(dtype.maximum or 0))


@pytest.mark.parametrize("has_floats", [True, False])
@given(st.data(), MULTIPLIERS, ZEROS, st.sampled_from([I8, U8]), st.booleans())
def test_codes_are_those_of_a_product_rounded_to_even(
    has_floats: bool, data: st.DataObject, multiplier: float, zero: int, dtype: DType, truncated: bool
) -> None:
    most = int(min(2**31 - 1, (LARGEST - 8) / multiplier / 1.01))
    near = st.builds(lambda code: max(-most, min(most, round((code + 0.5) / multiplier))), st.integers(-400, 400))
    totals = data.draw(st.lists(st.integers(-most, most) | near, min_size=1, max_size=50))

    code = code_of(scaled(multiplier), zero, dtype, truncated=truncated)
    made = requantised(code, {~0: np.float64(most)}, has_floats=has_floats)

    assert ("scale" in functions(made)) is not has_floats
    assert "round_even" not in functions(made)
    assert "trunc" not in functions(made)
    assert evaluated(made, totals) == [exact(total, multiplier, zero, dtype) for total in totals]


def test_halves_go_to_the_even_code() -> None:
    totals = list(range(-9, 10))

    made = requantised(code_of(scaled(0.5), 0, I8), {~0: 9.0})

    assert evaluated(made, totals) == [-4, -4, -4, -3, -2, -2, -2, -1, 0, 0, 0, 1, 2, 2, 2, 3, 4, 4, 4]


@pytest.mark.parametrize(
    ("value", "magnitudes"),
    [
        (code_of(scaled(0.5), 0, I8), {}),  # any i32
        (code_of(scaled(0.5), 0, I8), {~0: 2 * LARGEST}),
        (code_of(scaled(float("inf")), 0, I8), {~0: 1.0}),
        (code_of(tree.mul(tree.cast(tree.Input(~0, I32), F32), tree.Input(0, F32)), 0, I8), {~0: 1.0}),
        (tree.cast(tree.trunc(scaled(0.5)), I8), {~0: 1.0}),  # rounds toward zero
        (tree.cast(tree.add(tree.round_even(scaled(0.5)), tree.literal(0.5, F32)), I8), {~0: 1.0}),
        (code_of(scaled(0.5), 0, I32), {~0: 1.0}),
        (tree.cast(tree.add(tree.round_even(scaled(0.5)), tree.literal(inf, F32)), I8), {~0: 1.0}),
        (tree.cast(tree.add(tree.round_even(scaled(0.5)), tree.literal(nan, F32)), I8), {~0: 1.0}),
    ],
)
def test_what_is_not_proved_to_be_small_stays(value: tree.Expr, magnitudes: dict[int, float]) -> None:
    assert linearise(requantised(value, magnitudes)) == linearise(value)


def test_bounds_of_one_channel_are_not_those_of_another() -> None:
    value = code_of(tree.mul(tree.cast(tree.Input(~0, I32), F32), tree.Input(0, F32)), 0, I8)
    totals, multipliers = np.array([2.0**30, 1000.0]), np.array([2.0**-12, 0.5])

    assert "round_even" not in functions(requantised(value, {~0: totals, 0: multipliers}))
    assert "round_even" in functions(requantised(value, {~0: totals, 0: multipliers[::-1]}))


def test_a_code_within_a_larger_expression_is_found() -> None:
    sum_of_codes = tree.add(tree.cast(code_of(scaled(0.25), 3, I8), I32), tree.literal(7, I32))

    assert "round_even" not in functions(requantised(sum_of_codes, {~0: 100.0}))


def test_a_code_that_goes_on_as_an_integer_is_not_narrowed() -> None:
    code = tree.cast(code_of(scaled(0.25), -3, I8), I32)
    made = requantised(tree.mul(code, tree.literal(5, I32)), {~0: np.float64(1000)})

    assert not [step for step in linearise(made).instructions if step.dtype is I8]
    renamed, out = tree.substitute(made, {~0: tree.Input(0, I32)}), np.empty(4, np.int32)
    compile_program(linearise(renamed))([np.array([-1000, -2, 2, 1000], np.int32)], out)
    assert out.tolist() == [5 * code for code in (-128, -3, -3, 127)]


def test_magnitudes_of_integers_do_not_wrap_unseen() -> None:
    total, large = tree.Input(~0, I32), tree.literal(1 << 20, I32)

    assert magnitude(tree.mul(total, large), {~0: 100.0}) == 100 * 2.0**20
    assert magnitude(tree.mul(total, large), {~0: 4096.0}) == 2.0**31
    assert magnitude(tree.Input(0, F32), {}) == inf


@pytest.mark.parametrize("dtype", [BF16, F16, F8])
def test_low_floats_between_total_and_code_are_not_bounded(dtype: DType) -> None:
    """They overflow or round by more than f32: f16 beyond 65,519 is infinite, and saturates."""
    low = tree.cast(tree.cast(tree.Input(~0, I32), dtype), F32)
    assert magnitude(low, {~0: 9.0}) == inf
    assert "round_even" in functions(requantised(code_of(low, 3, I8), {~0: 9.0}))
