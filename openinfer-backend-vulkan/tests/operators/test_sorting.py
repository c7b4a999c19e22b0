"""Elements in order, of types that shaders compute in and of those that they only compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Array = np.ndarray[Any, Any]
    CarryOut = Callable[..., Array]

NAN = float("nan")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_of_floats_zeros_are_equal_and_nan_is_the_greatest(carry_out: CarryOut, dtype: type[np.generic]) -> None:
    row = np.array([NAN, 0.0, -0.0, -np.inf, 1e-5, -1e-5, np.inf, -NAN, 2.0, -2.0], dtype)

    assert carry_out("argsort", row).tolist() == [3, 9, 5, 1, 2, 4, 8, 6, 0, 7]
    assert carry_out("argsort", row, descending=True).tolist() == [0, 7, 6, 8, 4, 1, 2, 5, 9, 3]


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint64])
def test_integers_are_sorted_by_value(carry_out: CarryOut, dtype: type[np.integer[Any]]) -> None:
    limits = np.iinfo(dtype)
    row = np.array([5, limits.max, 0, limits.min, 5, limits.max - 1], dtype)

    assert carry_out("argsort", row).tolist() == np.argsort(row, kind="stable").tolist()
    assert carry_out("argmax_axis", row, axis=0).tolist() == 1
    assert carry_out("argmin_axis", row, axis=0).tolist() == int(row.argmin())


@pytest.mark.usefixtures("few_turns")
def test_a_slice_of_more_elements_than_a_dispatch_has_iterations(carry_out: CarryOut) -> None:
    x = np.random.default_rng(1).integers(0, 5, (2, 40)).astype(np.int32)

    assert carry_out("argsort", x).tolist() == np.argsort(x, axis=1, kind="stable").tolist()
    assert carry_out("topk", x, k=3, largest=False).tolist() == np.sort(x, axis=1)[:, :3].tolist()
