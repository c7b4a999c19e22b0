"""Changes of steps: operands stay with their tensors, whatever their positions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from openinfer.affine import Index
from openinfer.compute import Tensor
from openinfer.compute.reading import parse_computation
from openinfer.compute.verify import verify
from openinfer.dtypes import F32
from openinfer.plan.programs import operands_of
from openinfer.plan.step_edits import (
    free_name,
    operands_by_tensor,
    with_further_input,
    with_input,
    with_stage,
)
from openinfer.plan.steps import ComputeStep, Origin, TableRef, ValueRef

SCALED = """\
def scaled(x: f32[4], x0: f32[4], /, y: f32[4]):
    t: f32[4]
    for i in grid(4):
        t[i] = x[i] * x0[i]
    for i in grid(4):
        y[i] = t[i] + x0[i]
"""
TABLE = TableRef(2, (Index(),), checked=True)


@pytest.fixture
def step() -> ComputeStep:
    computation, inputs = parse_computation(SCALED), (ValueRef(5), TABLE)
    origin = Origin("entry", ())
    return ComputeStep(
        origin=origin, op="scaled", computation=computation, inputs=inputs, outputs=(7,), temporaries=(8,)
    )


def test_operands_go_by_the_names_of_inputs_outputs_and_temporaries(step: ComputeStep) -> None:
    assert operands_by_tensor(step) == {"x": ValueRef(5), "x0": TABLE, "y": ValueRef(7), "t": ValueRef(8)}
    assert operands_by_tensor(step) == operands_of(step)


@pytest.mark.parametrize(("prefix", "name"), [("x", "x1"), ("t", "t0"), ("columns", "columns0")])
def test_a_free_name_is_that_of_no_tensor(step: ComputeStep, prefix: str, name: str) -> None:
    assert free_name(step.computation, prefix) == name


def test_an_input_has_another_operand_and_the_others_keep_theirs(step: ComputeStep) -> None:
    tensor = Tensor("x0", F32, (Index.of(8),))
    changed = with_input(step, tensor, ValueRef(9))

    assert operands_by_tensor(changed) == operands_by_tensor(step) | {"x0": ValueRef(9)}
    assert changed.computation.inputs == (step.computation.inputs[0], tensor)
    assert changed.computation.stages == step.computation.stages


def test_a_further_input_comes_last(step: ComputeStep) -> None:
    tensor = Tensor("x1", F32, (Index.of(4),))
    changed = with_further_input(step, tensor, ValueRef(9))

    assert list(operands_by_tensor(changed)) == ["x", "x0", "x1", "y", "t"]
    assert changed.inputs == (*step.inputs, ValueRef(9))


def test_one_stage_of_several_is_another(step: ComputeStep) -> None:
    first, last = step.computation.stages
    changed = with_stage(step, 1, replace(last, value=first.value))

    verify(changed.computation)
    assert changed.computation.stages == (first, replace(last, value=first.value))
    assert changed.inputs == step.inputs
