"""Multipliers as integers times one power of two: exact, or not at all."""

from __future__ import annotations

import numpy as np
import pytest

from openinfer.plan.fixed_multipliers import fixed, further_bits


@pytest.mark.parametrize(
    ("multipliers", "further"),
    [
        ([0.25, 2.0**-32], 0),
        ([2.0**-33], 1),
        ([float(np.float32(0.1))], 0),
        ([float(np.float32(0.001))], 1),  # 24 bits, of which the last is 2^-33
        ([2.0**-63], 31),
    ],
)
def test_the_least_power_that_makes_integers(multipliers: list[float], further: int) -> None:
    array = np.array(multipliers, np.float32)

    assert further_bits([array]) == further
    assert (np.ldexp(fixed(further, array).astype(np.float64), -32 - further) == array).all()


@pytest.mark.parametrize(
    "multipliers", [[0.5], [2.0**-2, 2.0**-34], [2.0**-64], [0.0], [-0.25], [np.inf], [np.nan], []], ids=str
)
def test_what_has_none(multipliers: list[float]) -> None:
    assert further_bits([np.array(multipliers, np.float32)]) is None
