"""Decompositions keep to the types that their operator has, also where there are no elements."""

from __future__ import annotations

from typing import Any

import pytest

from openinfer.dtypes import F32, I8, DType
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of, decomposition
from openinfer.plugins.environment import Environment


def typed(*shapes: tuple[int, ...], dtype: DType = F32) -> list[TensorType]:
    return [TensorType(dtype, shape) for shape in shapes]


@pytest.mark.parametrize(
    ("op", "inputs", "settings"),
    [
        ("conv1d", typed((2, 1, 0), (3, 1, 0)), {}),
        ("conv1d", typed((0, 1, 5), (3, 1, 2)), {}),
        ("conv1d", typed((2, 0, 5), (0, 0, 2)), {}),
        ("group_norm", typed((0, 4, 3), (4,), (4,)), {"groups": 2}),
        ("group_norm", typed((2, 4, 0), (4,), (4,)), {"groups": 2}),
        ("batch_norm", typed((2, 0, 3), (0,), (0,), (0,), (0,)), {}),
        ("max_pool1d", typed((0, 2, 7)), {"kernel": 2}),
        ("dequantize_linear", [TensorType(I8, (0, 3)), TensorType(F32, (0,))], {"axis": 0}),
        ("dequantize_linear", [TensorType(I8, (3, 0)), TensorType(F32, (3, 0))], {"axis": 1, "block_size": 2}),
    ],
)
def test_nothing_decomposes_too(op: str, inputs: list[TensorType], settings: dict[str, Any]) -> None:
    environment = Environment.default()
    schema = environment.op(op)
    given = [*inputs, *[None] * (len(schema.inputs) - len(inputs))]
    call = call_of(schema, given, settings)

    found = decomposition(schema, call, environment.op)

    assert tuple(found.values[number] for number in found.outputs) == call.outputs
