"""Oracles of quantisation on values with a NaN."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from openinfer.dtypes import F32
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.plugins.environment import Environment
from openinfer.testing.expectation import expected_of
from openinfer.testing.oracle import known_oracles


@pytest.mark.parametrize("x", list(itertools.permutations((math.nan, math.inf, -1.0))))
def test_the_range_of_values_with_a_nan_is_nan_wherever_it_stands(x: tuple[float, ...]) -> None:
    call = call_of(Environment.default().op("dynamic_quantize_linear"), [TensorType(F32, (3,))], {})

    expected = expected_of(known_oracles()["dynamic_quantize_linear"], [np.array(x)], call)

    codes, scale, zero_point = (output.values for output in expected)
    assert np.isnan(scale)
    assert (codes.tolist(), zero_point) == ([0, 0, 0], 0)
