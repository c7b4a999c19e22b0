"""Stages that read no input are separated from the others; both parts together compute what the whole does."""

from __future__ import annotations

from typing import cast

import numpy as np

from openinfer.affine import Index
from openinfer.compute import Builder, Tensor
from openinfer.compute.constants import without_constants
from openinfer.compute.evaluate import evaluate
from openinfer.dims import Space
from openinfer.dtypes import F32, I64
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.ops.computations import computation_of
from openinfer.plugins.environment import Environment


def tensor(name: str, *shape: int) -> Tensor:
    return Tensor(name, F32, tuple(map(Index.of, shape)))


def test_tables_are_computed_apart_and_read_as_inputs() -> None:
    k = Builder("scaled", [tensor("x", 4)], [tensor("y", 4)])
    squares, doubled, shifted = (k.temporary(F32, 4) for _ in range(3))
    i = k.axis(4)
    squares[i] = k.position(i, F32) * k.position(i, F32)
    i = k.axis(4)
    doubled[i] = squares[i] * 2.0
    i = k.axis(4)
    shifted[i] = k.given[0][i] + doubled[i]
    i = k.axis(4)
    k.outputs[0][i] = shifted[i] * squares[i]
    whole, x = k.computation(), np.arange(4, dtype=np.float32) - 2

    known, rest = without_constants(whole)

    assert (len(known.stages), len(rest.stages)) == (2, 2)
    assert rest.inputs == (*whole.inputs, *known.outputs)
    (found,) = evaluate(rest, [x, *evaluate(known, ())])
    assert found.tolist() == [(value + 2 * i * i) * i * i for i, value in enumerate(x.tolist())]


def test_what_is_updated_in_place_or_read_from_an_input_is_not_a_constant() -> None:
    k = Builder("copied", [tensor("x", 4)], [tensor("y", 4)])
    held = k.temporary(F32, 4)
    i = k.axis(4)
    held[i] = k.constant(0.0, F32)
    i = k.axis(4)
    held[i] = held[i] + k.given[0][i]
    i = k.axis(4)
    k.outputs[0][i] = held[i]
    whole = k.computation()

    known, rest = without_constants(whole)

    assert not known.stages
    assert rest == whole


def test_tables_of_no_size_are_constants_of_a_computation_with_sizes():
    space = Space()
    rows = cast("int", space.size("T", 0, 16))
    rope = Environment.default().op("rope")
    types = [TensorType(F32, (rows, 8)), TensorType(I64, (rows,))]
    (path,) = space.explore(lambda: computation_of(rope, call_of(rope, types, {})))

    known, rest = without_constants(path.value)

    assert (len(known.outputs), known.parameters) == (1, ())
    assert [var.name for var in rest.parameters] == ["T"]
