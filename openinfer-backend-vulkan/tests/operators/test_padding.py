"""Margins, triangles, numbers in order and images of other sizes, against NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Array = np.ndarray[Any, Any]
    CarryOut = Callable[..., Array]


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
def test_margins_are_numpys(carry_out: CarryOut, mode: str) -> None:
    x = np.arange(12, dtype=np.int64).reshape(3, 4) << 40

    found = carry_out("pad", x, pads=(1, 3, 2, 0), mode=mode)

    assert found.tolist() == np.pad(x, ((1, 2), (3, 0)), mode=mode).tolist()


@pytest.mark.parametrize(("dtype", "value"), [(np.float16, -0.5), (np.int8, -7), (np.uint64, (1 << 64) - 1)])
def test_a_constant_margin_holds_the_value(carry_out: CarryOut, dtype: type[np.generic], value: float) -> None:
    x = np.ones((2, 2), dtype)

    found = carry_out("pad", x, pads=(0, 1, 1, -1), value=value)

    assert found.tolist() == [[value, 1], [value, 1], [value, value]]


@pytest.mark.parametrize("k", [-2, 0, 1, 99])
@pytest.mark.parametrize("dtype", [np.float64, np.uint8])
def test_triangles_are_numpys(carry_out: CarryOut, dtype: type[np.generic], k: int) -> None:
    x = np.arange(1, 25).reshape(2, 3, 4).astype(dtype)

    assert carry_out("tril", x, k=k).tolist() == np.tril(x, k).tolist()
    assert carry_out("triu", x, k=k).tolist() == np.triu(x, k).tolist()


def test_pixels_are_mixed_by_their_distance(carry_out: CarryOut) -> None:
    x = np.array([[[[0, 4], [8, 12]]]], np.float32)

    found = carry_out("resize2d", x, size=(2, 4), mode="linear")

    assert found.tolist() == [[[[0, 1, 3, 4], [8, 9, 11, 12]]]]
