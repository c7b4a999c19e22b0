"""The oracle of `reshape`, where an extent is 0."""

from __future__ import annotations

import numpy as np
import pytest

from openinfer.dtypes import F32
from openinfer.ir.resolved import Computed
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.plugins.environment import Environment
from openinfer.testing.expectation import expected_of
from openinfer.testing.oracle import known_oracles


@pytest.mark.parametrize(
    ("extents", "shape", "expected"),
    [
        ((3, 2), (0, 2), (3, 2)),
        ((0, 4), (4, Computed(0)), (4, 0)),
        ((0, 4), (0, 2, 2), (0, 2, 2)),
        ((0, 4), (1, 1, Computed(0)), (1, 1, 0)),
    ],
)
def test_a_written_zero_copies_and_a_computed_one_is_an_extent(
    extents: tuple[int, ...], shape: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    call = call_of(Environment.default().op("reshape"), [TensorType(F32, extents)], {"shape": shape})
    x = np.arange(np.prod(extents)).reshape(extents).astype(object)

    (reshaped,) = expected_of(known_oracles()["reshape"], [x], call)

    assert reshaped.shape == expected == call.outputs[0].shape
