"""Oracles of quantisation: values with a NaN, and where quotients are rounded."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from openinfer.dtypes import BF16, F32, F64, I32, U8, DType
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


def quantised(x: DType, scale: DType, real: float, step: float) -> int:
    """Return the code that the oracle gives a number."""
    types = [TensorType(x, (1,)), TensorType(scale)]
    call = call_of(Environment.default().op("quantize_linear"), types, {}, declared=(TensorType(U8, (1,)),))
    (codes,) = expected_of(known_oracles()["quantize_linear"], [np.array([real]), np.array(step)], call)
    return int(codes.values[0])


@pytest.mark.rule("operators.quantisation.1")
@pytest.mark.parametrize("real", [0.75, 1.25, 1.5, 2.5])
def test_a_quotient_is_rounded_to_f32_before_it_is_rounded_to_a_code(real: float) -> None:
    step = float(np.float32(0.1))
    exact = Fraction(real) / Fraction(step)

    assert quantised(F32, F32, real, step) == round(float(np.float32(real) / np.float32(step)))
    assert quantised(F64, F32, real, step) == quantised(F32, F64, real, step) == round(exact)


def test_one_quotient_of_f32_is_a_tie_that_the_exact_one_is_not() -> None:
    step = float(np.float32(0.1))
    assert (quantised(F32, F32, 0.75, step), quantised(F64, F32, 0.75, step)) == (8, 7)


@pytest.mark.rule("dtypes.rounding.3")
def test_reals_of_32_bit_integers_become_low_floats_in_one_rounding() -> None:
    types = [TensorType(I32, (1,)), TensorType(F32)]
    call = call_of(Environment.default().op("dequantize_linear"), types, {}, declared=(TensorType(BF16, (1,)),))
    codes = np.array([(1 << 30) + (1 << 22) + 1], dtype=object)

    (reals,) = expected_of(known_oracles()["dequantize_linear"], [codes, np.array(1.0)], call)

    assert float(reals.values[0]) == (1 << 30) + (1 << 23)
