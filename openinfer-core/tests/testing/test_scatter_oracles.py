"""Oracles of scatters into arrays that have no place for what the indices name."""

from __future__ import annotations

import numpy as np
import pytest

from openinfer.dtypes import F32, I64
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.plugins.environment import Environment
from openinfer.testing.expectation import expected_of
from openinfer.testing.oracle import known_oracles


@pytest.mark.parametrize(("op", "settings"), [("scatter_nd", {}), ("scatter", {"axis": 0})])
def test_an_array_without_elements_stays_as_it_is(op, settings):
    shapes = (0, 1), (1, 1), (1, 1)
    types = [TensorType(kind, shape) for kind, shape in zip((F32, I64, F32), shapes, strict=True)]
    inputs = [np.ones(shapes[0]), np.array([[2]], object), np.ones(shapes[2])]

    (found,) = expected_of(known_oracles()[op], inputs, call_of(Environment.default().op(op), types, settings))

    assert found.shape == (0, 1)
