"""Images of other sizes: lengths, and the places between which places of the result lie."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from openinfer.ops.catalog.resizing import neighbours, scaled
from openinfer.ops.schema import OpTypeError

SIZES = [(1, 4), (3, 7), (29, 15), (14, 31), (100, 49), (256, 320), (4096, 4095)]


@pytest.mark.parametrize(("size", "result"), SIZES)
def test_neighbours_are_those_of_exact_coordinates(size: int, result: int) -> None:
    for place, (low, high, share) in enumerate(neighbours(size, result)):
        at = (place + Fraction(1, 2)) * size / result - Fraction(1, 2)
        inside = min(max(at, Fraction(0)), Fraction(size - 1))
        assert (low, high) == (int(inside), min(int(inside) + 1, size - 1))
        assert share == float(inside - low)


@pytest.mark.parametrize(("size", "factor", "length"), [(100, 0.29, 29), (10, 2.1, 21), (706, 224 / 706, 223)])
def test_lengths_are_products_in_f32_rounded_down(evaluate: Any, size: int, factor: float, length: int) -> None:
    assert scaled(size, factor) == float(np.float32(size) * np.float32(factor))
    assert evaluate("resize2d", "u8", np.zeros((1, 1, size, 1)), scale=(factor, 1.0)).shape == (1, 1, length, 1)


@pytest.mark.parametrize("factor", [1e39, 3e38])
def test_a_factor_beyond_f32_is_refused(evaluate: Any, factor: float) -> None:
    with pytest.raises(OpTypeError, match="is more than an f32 holds"):
        evaluate("resize2d", "f32", np.zeros((1, 1, 2, 2)), scale=factor)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_linear_images_are_mixtures_of_exact_shares(evaluate: Any, dtype: str) -> None:
    x = np.arange(29.0).reshape(1, 1, 1, 29)
    at = [(place + Fraction(1, 2)) * 29 / 64 - Fraction(1, 2) for place in range(64)]
    inside = [float(min(max(coordinate, Fraction(0)), Fraction(28))) for coordinate in at]
    found = evaluate("resize2d", dtype, x, size=(1, 64), mode="linear")
    np.testing.assert_allclose(found[0, 0, 0], inside, rtol=4 * np.finfo(found.dtype).eps)
