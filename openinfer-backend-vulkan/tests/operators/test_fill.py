"""The operator fill on every element type with bytes of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    CarryOut = Callable[..., np.ndarray[Any, Any]]


@pytest.mark.parametrize("count", [1, 3, 8, 200])
@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        (np.float16, -1.5),
        (np.float64, 0.1),
        (np.int64, -(1 << 62) - 5),
        (np.uint64, (1 << 64) - 2),
        (np.float32, 0.1),
        (np.int8, -128),
        (np.uint16, 65535),
        (np.bool_, True),
    ],
)
def test_every_element_is_the_value(carry_out: CarryOut, dtype: type[np.generic], value: Any, count: int) -> None:
    found = carry_out("fill", np.zeros(count, dtype), value=value)

    assert found.dtype == dtype
    assert found.tolist() == np.full(count, value, dtype).tolist()
