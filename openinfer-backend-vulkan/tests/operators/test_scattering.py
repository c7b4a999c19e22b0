"""Updates in their order, also where a device divides them among dispatches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Array = np.ndarray[Any, Any]
    CarryOut = Callable[..., Array]

pytestmark = pytest.mark.usefixtures("few_turns")
INDICES = np.array([2, 0, 2, -1, 2, 0, 1, 2, 0, 2, 2, 0])


def test_the_last_update_stays(carry_out: CarryOut) -> None:
    updates = np.arange(12, dtype=np.int64) << 40

    found = carry_out("scatter", np.full(4, -1), INDICES, updates)

    assert found.tolist() == [11 << 40, 6 << 40, 10 << 40, 3 << 40]


def test_sums_of_low_floats_are_rounded_once(carry_out: CarryOut) -> None:
    x, updates = np.array([2048, 0, 0, 0], np.float16), np.ones(12, np.float16)

    assert carry_out("scatter", x, INDICES, updates, reduction="add").tolist() == [2052, 1, 6, 1]


def test_slices_at_tuples(carry_out: CarryOut) -> None:
    x, updates = np.zeros((2, 3, 2), np.int8), np.arange(20, dtype=np.int8).reshape(10, 2)
    indices = np.array([[n % 2, n % 3] for n in range(10)])
    expected = x.copy()
    for place, update in zip(indices, updates, strict=True):
        expected[tuple(place)] = np.maximum(expected[tuple(place)], update)

    assert carry_out("scatter_nd", x, indices, updates, reduction="max").tolist() == expected.tolist()


def test_running_sums_are_divided_too(carry_out: CarryOut) -> None:
    x = np.full((2, 30), 100, np.uint8)

    assert carry_out("cumsum", x, axis=1).tolist() == np.cumsum(x, axis=1, dtype=np.uint8).tolist()
    assert carry_out("cumsum", x, axis=1, reverse=True, exclusive=True)[0, :3].tolist() == [2900 % 256, 2800 % 256, 140]
