"""Numbers as narrower floats: rounded once, to nearest and ties to even, against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from openinfer.dtypes import BY_NAME
from openinfer.float_formats import FORMATS


def nearest(value: float, name: str) -> float:
    """Return a number rounded to a float type in exact arithmetic; NaN and infinities stay."""
    if not math.isfinite(value) or not value:
        return float(value)
    form, exact = FORMATS[name], Fraction(value)
    least = Fraction(2) ** (form.exponent - form.fraction)
    step = max(least, Fraction(2) ** (_exponent(abs(exact)) - form.fraction))
    rounded = round(exact / step) * step
    return math.copysign(float(rounded) if abs(rounded) <= form.greatest else math.inf, value)


def _exponent(size: Fraction) -> int:
    """Return the exponent of the greatest power of two that is not above a positive number."""
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    return exponent if Fraction(2) ** exponent <= size else exponent - 1


def integers(low: int, high: int) -> list[int]:
    """Return integers between two bounds: ties of each float type at every magnitude, and those next to them."""
    values = {low, low + 1, high - 1, high, 0, 2**60 + 2**36 + 1}
    for power in range(2, high.bit_length()):
        for bits in (form.fraction + 1 for form in FORMATS.values() if form.fraction < power):
            half = 1 << (power - bits)
            for steps in (0, 1, 2, 3):
                near = (1 << power) + 2 * steps * half + half
                values |= {sign * (near + away) for away in (-1, 0, 1) for sign in (1, -1)}
    return sorted(value for value in values if low <= value <= high)


def doubles() -> list[float]:
    """Return doubles: ties of each narrower type at every magnitude, what lies next to them, and numbers at random."""
    values = {0.0, math.inf, math.nan, 5e-324, 1.7e308}
    for form in (FORMATS[name] for name in ("f8", "f16", "bf16", "f32")):
        for exponent in range(form.exponent - form.fraction - 2, 2 - form.exponent, 3):
            step = max(2.0 ** (exponent - form.fraction), form.least)
            for tie in (2.0**exponent + (steps + 0.5) * step for steps in (0, 1, 2)):
                near = (1.0, 1 + 2.0**-50, 1 - 2.0**-50, 1 + 2.0**-26, 1 - 2.0**-26)
                values |= {tie * factor for factor in near} | {math.nextafter(tie, 0), math.nextafter(tie, math.inf)}
        values |= {form.greatest, form.greatest + form.greatest * form.epsilon / 4}
    random = np.random.default_rng(11)
    drawn = random.standard_normal(500) * np.exp2(random.uniform(-140, 130, 500))
    return [*values, *(-value for value in values), -0.0, *drawn.tolist()]


@pytest.mark.rule("dtypes.rounding.3", "dtypes.rounding.4")
@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("source", ["i32", "u32", "i64", "u64"])
def test_an_integer_becomes_a_float_in_one_rounding(evaluate: Any, source: str, target: str) -> None:
    dtype = BY_NAME[source]
    values = integers(dtype.minimum or 0, dtype.maximum or 0)

    with np.errstate(over="ignore"):
        converted = evaluate("cast", source, np.array(values, dtype.storage), to=BY_NAME[target])

    assert converted.astype(np.float64).tolist() == [nearest(value, target) for value in values]


@pytest.mark.rule("dtypes.rounding.2", "dtypes.rounding.3")
@pytest.mark.parametrize("target", ["f8", "f16", "bf16", "f32"])
def test_an_f64_becomes_a_narrower_float_in_one_rounding(evaluate: Any, target: str) -> None:
    values = doubles()

    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        converted = evaluate("cast", "f64", np.array(values), to=BY_NAME[target]).astype(np.float64)

    expected = np.array([nearest(value, target) for value in values])
    np.testing.assert_array_equal(converted, expected)
    ordered = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(converted)[ordered], np.signbit(expected)[ordered])
