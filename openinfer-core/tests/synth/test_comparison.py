"""Comparison of outputs: floats within a share of the largest magnitude or near zero, everything else exactly."""

from __future__ import annotations

import numpy as np
import pytest

from openinfer.synth.comparison import compare, worst
from openinfer.tolerances import Tolerance

NAN, INF = float("nan"), float("inf")


def floats(*values):
    return np.array(values, np.float32)


@pytest.mark.parametrize(
    ("expected", "found", "within"),
    [
        (floats(1.0, 100.0), floats(1.0009, 100.0), True),
        (floats(1.0, 100.0), floats(1.002, 100.0), False),
        (floats(NAN, 1.0), floats(NAN, 1.0), True),
        (floats(NAN, 1.0), floats(0.0, 1.0), False),
        (floats(1.0, INF), floats(1.0, INF), True),
        (floats(1.0, INF), floats(1.0, -INF), False),
        (floats(0.0), floats(-0.0), True),
        (floats(0.0), floats(1e-30), True),
        (floats(1e-7, -2e-7), floats(3e-7, 1e-7), True),
        (floats(0.0), floats(1e-5), False),
        (np.array([1.0], np.float16), np.array([1.001], np.float16), True),
        (np.array([1.0], np.float16), np.array([1.003], np.float16), False),
        (floats(INF, 1.0), floats(2.0, 1.0), False),
        (floats(), floats(), True),
        (np.array([True, False]), np.array([True, False]), True),
        (np.array([True, False]), np.array([True, True]), False),
        (np.array([2**63 - 1]), np.array([2**63 - 2]), False),
        (floats(1.0, 2.0), floats(1.0, 2.0).reshape(2, 1), False),
    ],
)
def test_what_counts_as_equal(expected, found, within):
    assert compare("y", expected, found).within is within


def test_figures_of_a_difference():
    difference = compare("y", floats(2.0, -4.0), floats(2.0, -4.5), Tolerance(0.0, 0.2))

    assert (difference.largest, difference.relative, difference.within) == (0.5, 0.125, True)


def test_integers_are_compared_in_steps():
    left, right = np.array([0, 7, -128, 5], np.int8), np.array([1, 6, 127, 5], np.int8)

    exact, one_step = compare("y", left, right), compare("y", left, right, Tolerance(1.0, 0.0))

    assert (exact.steps, exact.beyond, exact.elements) == (((1, 2), (255, 1)), 3, 4)
    assert (one_step.beyond, one_step.within) == (1, False)
    assert compare("y", left, left + np.int8(1) * (left < 100), Tolerance(1.0, 0.0)).within


def test_elements_that_are_not_finite_are_counted():
    difference = compare("y", floats(NAN, INF, -INF, 1.0), floats(NAN, INF, 3.0, 1.0))

    assert (difference.not_finite, difference.mismatched) == (3, 1)


def test_the_worst_difference_is_the_largest_share_of_what_is_allowed():
    near_zero = compare("y", floats(1e-9, 0.0), floats(9e-9, 0.0))
    far = compare("y", floats(100.0), floats(100.0009))
    exact = compare("y", np.array([1]), np.array([1]))

    assert worst([near_zero, far, exact]) is far
    assert worst([far, compare("y", floats(1.0, 2.0), floats(1.0))]).shapes == ([1], [2])
