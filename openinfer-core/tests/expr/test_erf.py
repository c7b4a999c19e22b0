"""The error function of arrays: its coefficients in sixty digits, its values compared with the C library's."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest

from openinfer.expr import numpy_erf

PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")
COUNT = len(numpy_erf._COEFFICIENTS)


def cosine(angle: Decimal) -> Decimal:
    total = term = Decimal(1)
    for n in range(2, 200, 2):
        term = -term * angle * angle / (n * (n - 1))
        total += term
    return total


def g(square: Decimal) -> Decimal:
    """Return erf(sqrt(u)) / sqrt(u): 2 / sqrt(pi) e^-u times the sum of (2u)^n / (1 * 3 * 5 ... (2n + 1))."""
    total = term = Decimal(1)
    for n in range(1, 400):
        term = term * 2 * square / (2 * n + 1)
        total += term
    return 2 / PI.sqrt() * (-square).exp() * total


def test_coefficients_are_those_of_the_series() -> None:
    with localcontext() as context:
        context.prec = 60
        quarters = [cosine(PI * step / (2 * COUNT)) for step in range(4 * COUNT)]
        values = [g((1 + quarters[2 * point + 1]) * 18) for point in range(COUNT)]
        for order, found in enumerate(numpy_erf._COEFFICIENTS):
            turns = (quarters[order * (2 * point + 1) % (4 * COUNT)] for point in range(COUNT))
            exact = 2 * sum(value * turn for value, turn in zip(values, turns, strict=True)) / COUNT
            assert found == float(exact / 2 if order == 0 else exact)


@pytest.mark.parametrize(("low", "high", "units"), [(1e-300, 1e-3, 3), (1e-3, 1, 3), (1, 3, 4), (3, 7, 8)])
def test_values_are_those_of_the_library(low: float, high: float, units: int) -> None:
    x = np.exp(np.random.default_rng(0).uniform(math.log(low), math.log(high), 20_000))
    out, scratch = np.empty_like(x), [np.empty_like(x) for _ in range(5)]
    numpy_erf.erf(out, scratch, x)
    expected = np.array([math.erf(value) for value in x.tolist()])
    assert (abs(out - expected) <= units * np.spacing(expected)).all()
