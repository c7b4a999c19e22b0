"""Sums of floats and of their products, rounded once: no order of summation changes them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def total(values: Iterable[float]) -> float:
    """Return the sum rounded once; infinities and NaN follow IEEE 754."""
    listed = list(values)
    # fsum knows no opposite infinities.
    return math.fsum(listed) if all(map(math.isfinite, listed)) else sum(listed)


def total_of_products(terms: Iterable[Sequence[float]]) -> float:
    """Return the sum of products of some factors each, rounded once; infinities and NaN follow IEEE 754."""
    listed = list(terms)
    products = list(map(math.prod, listed))
    if not all(map(math.isfinite, products)):
        return sum(products)
    if all(len(factors) < 3 and all(map(_is_short, factors)) for factors in listed):
        return math.fsum(products)
    return float(sum(math.prod(map(Fraction, factors)) for factors in listed))


def _is_short(value: float) -> bool:
    """Whether a float has at most 26 significant bits: the product of two of them is exact."""
    fraction = math.frexp(value)[0] * (1 << 26)
    return fraction == int(fraction)
