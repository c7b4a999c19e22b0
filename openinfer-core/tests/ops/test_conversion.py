"""Integers as floats: rounded once, to nearest and ties to even, against exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from openinfer.dtypes import BY_NAME

SIGNIFICANT = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8, "f8": 3}
OVERFLOW = {"f16": 65520, "f8": 61440}
"""The least integers that become infinite."""


def nearest(value: int, bits: int) -> int:
    """Return an integer rounded to so many significant bits."""
    step = 1 << max(abs(value).bit_length() - bits, 0)
    return round(Fraction(value, step)) * step


def integers(low: int, high: int) -> list[int]:
    """Return integers between two bounds: ties of each float type at every magnitude, and those next to them."""
    values = {low, low + 1, high - 1, high, 0, 2**60 + 2**36 + 1}
    for power in range(2, high.bit_length()):
        for bits in (bits for bits in SIGNIFICANT.values() if bits <= power):
            half = 1 << (power - bits)
            for steps in (0, 1, 2, 3):
                near = (1 << power) + 2 * steps * half + half
                values |= {sign * (near + away) for away in (-1, 0, 1) for sign in (1, -1)}
    return sorted(value for value in values if low <= value <= high)


@pytest.mark.rule("dtypes.rounding.3", "dtypes.rounding.4")
@pytest.mark.parametrize("target", SIGNIFICANT)
@pytest.mark.parametrize("source", ["i32", "u32", "i64", "u64"])
def test_an_integer_becomes_a_float_in_one_rounding(evaluate: Any, source: str, target: str) -> None:
    dtype = BY_NAME[source]
    values = integers(dtype.minimum or 0, dtype.maximum or 0)
    limit = OVERFLOW.get(target)

    with np.errstate(over="ignore"):
        converted = evaluate("cast", source, np.array(values, dtype.storage), to=BY_NAME[target])

    # Low floats are rounded from f32. That shows in bf16 alone: f16 and f8 are infinite before f32 rounds integers.
    first = values if target == "f64" else [nearest(value, 24) for value in values]
    expected = [
        math.copysign(math.inf, value) if limit and abs(value) >= limit else float(nearest(value, SIGNIFICANT[target]))
        for value in first
    ]
    assert converted.astype(np.float64).tolist() == expected
