"""Comparison of outputs: floats within a share of the largest magnitude, everything else exactly."""

from __future__ import annotations

import numpy as np
import pytest

from openinfer.synth.comparison import compare

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
        (floats(0.0), floats(1e-30), False),
        (floats(), floats(), True),
        (np.array([True, False]), np.array([True, False]), True),
        (np.array([True, False]), np.array([True, True]), False),
        (np.array([2**63 - 1]), np.array([2**63 - 2]), False),
    ],
)
def test_what_counts_as_equal(expected, found, within):
    assert compare("y", expected, found).within is within


def test_figures_of_a_difference():
    difference = compare("y", floats(2.0, -4.0), floats(2.0, -4.5), tolerance=0.2)

    assert (difference.largest, difference.relative, difference.within) == (0.5, 0.125, True)


def test_integers_have_no_tolerance():
    assert not compare("y", np.array([1000]), np.array([1001]), tolerance=1.0).within
