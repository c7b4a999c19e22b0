"""Functions that are as precise on every device, and 64 bits inside of expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.dtypes import BF16, F16, F32, I64

if TYPE_CHECKING:
    from collections.abc import Callable

    Array = np.ndarray[Any, Any]
    CarryOut = Callable[..., Array]


def units(found: Array, expected: Array) -> float:
    """Return the greatest error in units of the last place of f32."""
    return float(np.max(np.abs(found - expected) / np.spacing(np.abs(expected).astype(np.float32))))


def test_exp_is_precise_in_all_its_range(carry_out: CarryOut) -> None:
    x = np.linspace(-86, 88.5, 50_001, dtype=np.float32)

    assert units(carry_out("exp", x), np.exp(x.astype(np.float64))) <= 2


def test_log_is_precise_around_1_as_everywhere(carry_out: CarryOut) -> None:
    random = np.random.default_rng(5)
    wide, near = (
        np.exp(random.uniform(-87, 88, 30_000)),
        1 + np.ldexp(random.normal(size=30_000), -random.integers(2, 24, 30_000)),
    )
    x = np.concatenate([wide, near, np.ldexp(1.0, np.arange(-149, 128))]).astype(np.float32)
    expected = np.log(x[x > 0].astype(np.float64))

    assert units(carry_out("log", x[x > 0]), expected) <= 1


def test_powers_are_precise_whatever_the_exponent(carry_out: CarryOut) -> None:
    random = np.random.default_rng(5)
    a = np.concatenate([np.exp(random.uniform(-20, 20, 30_000)), 1 + 1e-3 * random.normal(size=20_000)])
    a = a.astype(np.float32)[np.float32(a) != 1]
    b = (random.uniform(-125, 127, a.size) / np.log2(a.astype(np.float64))).astype(np.float32)

    assert units(carry_out("pow", a, b), a.astype(np.float64) ** b.astype(np.float64)) <= 4


def test_a_power_of_nan_is_nan_but_for_the_exponent_zero(carry_out: CarryOut) -> None:
    a, b = np.array([np.nan, np.nan, 1, 2], np.float16), np.array([0, 3, np.nan, np.nan], np.float16)

    np.testing.assert_array_equal(carry_out("pow", a, b), np.array([1, np.nan, 1, np.nan]))


def test_integers_keep_their_sign_in_64_bits(carry_out: CarryOut) -> None:
    x = np.array([-3, 5, -128], np.int8)

    assert carry_out("abs", x, acc=(I64, F32)).tolist() == [3.0, 5.0, 128.0]


def test_an_accumulator_of_low_floats_is_f32(carry_out: CarryOut) -> None:
    a = np.array([[1, 1 / 256]], np.float16)

    assert carry_out("matmul", a, np.ones((2, 1), np.float16), acc=(BF16, F16)).tolist() == [[1 + 1 / 256]]
