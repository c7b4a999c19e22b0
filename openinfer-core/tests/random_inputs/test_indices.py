"""Index inputs follow from definitions: the oracles say independently which elements each operator refuses."""

from __future__ import annotations

import pytest

from openinfer.ops.calls import OpCall
from openinfer.ops.examples import example_call
from openinfer.ops.schema import OpExample, OpSchema
from openinfer.plugins.environment import Environment
from openinfer.random_inputs.indices import angle_inputs, index_inputs
from openinfer.testing.oracle import known
from openinfer.testing.oracles import indexing

ENVIRONMENT = Environment.default()
REFUSING = {name: rule for name, rule in known("REFUSED").items() if name in {*indexing.REFUSED, "rope_cached"}}


def examples() -> list[tuple[str, OpExample]]:
    return [(name, example) for name in sorted(REFUSING) for example in ENVIRONMENT.op(name).examples]


def call(schema: OpSchema, example: OpExample) -> OpCall:
    return example_call(schema, example, ENVIRONMENT.dtypes["f32"], ENVIRONMENT.dtypes)


@pytest.mark.parametrize(("name", "example"), examples())
def test_elements_that_an_oracle_refuses_are_no_legal_indices(name: str, example: OpExample) -> None:
    schema = ENVIRONMENT.op(name)
    made = call(schema, example)
    indices = list(index_inputs(schema, made))
    if not all(kind.count for kind in made.outputs):
        return
    if name == "rope_cached" and len(made.inputs) < 4:
        assert indices == []
        return

    refused = {(each.input, int(each.value)) for each in REFUSING[name](made) if holds(made, each.input, each.value)}

    least = {(index.position, int(index.legal.low) - 1) for index in indices}
    most = {(index.position, int(index.legal.high) + 1) for index in indices}
    assert refused
    assert refused <= least | most


def holds(made: OpCall, position: int, value: float) -> bool:
    kind = made.inputs[position]
    return kind is not None and (kind.dtype.minimum or 0) <= value


def test_one_hot_counts_its_depth() -> None:
    schema = ENVIRONMENT.op("one_hot")
    (index,) = index_inputs(schema, call(schema, schema.examples[0]))
    assert (index.position, index.extent) == (0, 5)


@pytest.mark.parametrize("name", ["add", "softmax", "argsort", "topk", "where", "pad", "max_pool2d"])
def test_operators_without_indices_have_none(name: str) -> None:
    schema = ENVIRONMENT.op(name)
    for example in schema.examples:
        assert list(index_inputs(schema, call(schema, example))) == []


def test_positions_of_rotations_become_angles() -> None:
    schema = ENVIRONMENT.op("rope")
    assert set(angle_inputs(schema, call(schema, schema.examples[0]))) == {1}
