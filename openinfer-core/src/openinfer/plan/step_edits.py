"""Changes of a step that computes: another stage, another operand for a tensor, one more operand.

A step and its computation change together; operands go by the names of their tensors.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from openinfer.plan.steps import ValueRef

if TYPE_CHECKING:
    from openinfer.compute import Computation, Stage, Tensor
    from openinfer.plan.steps import ComputeStep, Operand


def tensors_of(computation: Computation) -> tuple[Tensor, ...]:
    """Return the inputs, outputs and temporaries of a computation."""
    return (*computation.inputs, *computation.outputs, *computation.temporaries)


def operands_by_tensor(step: ComputeStep) -> dict[str, Operand]:
    """Return the operands of a step, results and temporaries among them, by the names of their tensors."""
    operands = (*step.inputs, *map(ValueRef, (*step.outputs, *step.temporaries)))
    return dict(zip((tensor.name for tensor in tensors_of(step.computation)), operands, strict=True))


def free_name(computation: Computation, prefix: str) -> str:
    """Return a name that no tensor of a computation has: a prefix and a number."""
    taken = {tensor.name for tensor in tensors_of(computation)}
    return next(name for number in count() if (name := f"{prefix}{number}") not in taken)


def with_stage(step: ComputeStep, number: int, stage: Stage) -> ComputeStep:
    """Return a step with another stage of this number."""
    stages = step.computation.stages
    return replace(step, computation=replace(step.computation, stages=(*stages[:number], stage, *stages[number + 1 :])))


def with_input(step: ComputeStep, tensor: Tensor, operand: Operand) -> ComputeStep:
    """Return a step with another operand, and its tensor, for the input of this name."""
    pairs = list(zip(step.computation.inputs, step.inputs, strict=True))
    tensors = tuple(tensor if old.name == tensor.name else old for old, _ in pairs)
    operands = tuple(operand if old.name == tensor.name else own for old, own in pairs)
    return replace(step, computation=replace(step.computation, inputs=tensors), inputs=operands)


def with_further_input(step: ComputeStep, tensor: Tensor, operand: Operand) -> ComputeStep:
    """Return a step with one more input, which no stage reads yet."""
    computation = replace(step.computation, inputs=(*step.computation.inputs, tensor))
    return replace(step, computation=computation, inputs=(*step.inputs, operand))
