"""Data movement against NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    CarryOut = Callable[..., np.ndarray[Any, Any]]


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.float16, np.uint8, np.bool_])
def test_reshape_keeps_the_order_of_elements(carry_out: CarryOut, dtype: type[np.generic]) -> None:
    x = np.arange(30).astype(dtype).reshape(2, 3, 5)

    found = carry_out("reshape", x, shape=(6, -1))

    assert found.dtype == x.dtype
    assert found.tolist() == x.reshape(6, 5).tolist()


def test_flatten_and_identity_keep_the_order_of_elements(carry_out: CarryOut) -> None:
    x = np.arange(30, dtype=np.float32).reshape(2, 3, 5)

    assert carry_out("flatten", x, axis=2).tolist() == x.reshape(6, 5).tolist()
    assert carry_out("identity", x).tolist() == x.tolist()


@pytest.mark.parametrize(
    ("shape", "perm"),
    [((3, 4), None), ((2, 3, 4), (2, 0, 1)), ((2, 3, 4), (0, 2, 1)), ((2, 1, 3, 4, 2), (4, 3, 1, 0, 2)), ((5,), (0,))],
)
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.bool_])
def test_transpose_is_numpys(
    carry_out: CarryOut, shape: tuple[int, ...], perm: tuple[int, ...] | None, dtype: type[np.generic]
) -> None:
    x = np.random.default_rng(1).integers(0, 9, shape).astype(dtype)

    assert carry_out("transpose", x, perm=perm).tolist() == x.transpose(perm).tolist()
