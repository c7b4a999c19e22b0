"""Positions of extremes, against Python's own comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    CarryOut = Callable[..., np.ndarray[Any, Any]]

NAN = float("nan")


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint32])
@pytest.mark.parametrize("op", ["argmax_axis", "argmin_axis"])
def test_the_position_along_an_axis_is_numpys(carry_out: CarryOut, op: str, dtype: type[np.generic], axis: int) -> None:
    x = np.random.default_rng(2).permutation(60).reshape(3, 4, 5).astype(dtype)

    found = carry_out(op, x, axis=axis)

    assert found.dtype == np.int64
    assert found.tolist() == getattr(np, op.removesuffix("_axis"))(x, axis).tolist()


@pytest.mark.parametrize(
    ("row", "settings", "expected"),
    [
        ([1, 5, 2, 5], {}, 1),
        ([1, 5, 2, 5], {"select_first": False}, 3),
        ([0.0, -0.0], {}, 0),
        ([1, NAN, 2], {}, 2),
        ([NAN, 1, 2], {}, 0),
        ([NAN, 1, 2], {"select_first": False}, 0),
        ([1, NAN, 2, NAN], {"nan": "propagate"}, 1),
        ([1, NAN, 2, NAN, 9], {"nan": "propagate", "select_first": False}, 3),
        ([-np.inf, -np.inf], {}, 0),
    ],
)
def test_ties_and_nans_follow_the_rules(
    carry_out: CarryOut, row: list[float], settings: dict[str, Any], expected: int
) -> None:
    assert carry_out("argmax_axis", np.array([row], np.float32), axis=1, **settings).tolist() == [expected]


def test_a_kept_axis_has_one_element(carry_out: CarryOut) -> None:
    assert carry_out("argmax_axis", np.array([[3, 1], [1, 3]], np.int32), axis=1, keepdims=True).tolist() == [[0], [1]]
