"""The oracle of `narrow`, where there is little or nothing to take places from."""

from __future__ import annotations

import numpy as np
import pytest

from openinfer.dtypes import F32
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.plugins.environment import Environment
from openinfer.testing.expectation import expected_of
from openinfer.testing.oracle import known_oracles


@pytest.mark.parametrize(
    ("start", "length", "extent", "expected"),
    [(0, 0, 0, []), (3, 0, 3, []), (1, 2, 3, [1, 2]), (-3, 1, 3, [0]), (-1, 1, 3, [2])],
)
def test_places_are_those_of_a_slice(start: int, length: int, extent: int, expected: list[int]) -> None:
    types, settings = [TensorType(F32, (2, extent))], {"axis": 1, "start": start, "length": length}
    call = call_of(Environment.default().op("narrow"), types, settings)
    x = np.stack([np.arange(extent)] * 2).astype(object)

    (narrowed,) = expected_of(known_oracles()["narrow"], [x], call)

    assert narrowed.values.tolist() == [expected, expected]
