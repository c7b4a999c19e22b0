"""Codes in fixed point, in Python's integers and fractions."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from openinfer.testing.oracles.requantisation import scaled


def multiplier_of(real: float) -> tuple[int, int]:
    """Return a factor as 31 bits after the point, halves up, and a power of two."""
    exact, shift = Fraction(real), 0
    while exact >= 1:
        exact, shift = exact / 2, shift + 1
    while exact < Fraction(1, 2):
        exact, shift = exact * 2, shift - 1
    number = (exact * (1 << 31) + Fraction(1, 2)).__floor__()
    return (number, shift) if number < 1 << 31 else (number // 2, shift + 1)


def code(total: int, real: float, zero: int, mode: str, dtype: Any = np.int8, bits: int = 32) -> int:
    limits = np.iinfo(dtype)
    return min(max(scaled(total, *multiplier_of(real), mode, bits) + zero, limits.min), limits.max)
