"""Steps that may write where they read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.compute.in_place import overwritable
from openinfer.plan.accesses import operand_reads
from openinfer.plan.steps import ComputeStep, ValueRef

if TYPE_CHECKING:
    from openinfer.plan.steps import Step


def overwritten(step: Step, output: int) -> int:
    """Return the values (as bits) that a step reads and may overwrite, element by element, with its result."""
    if not isinstance(step, ComputeStep) or output not in step.outputs:
        return 0
    name = step.computation.outputs[step.outputs.index(output)].name
    layouts = dict(step.arrangement.layouts)
    tensors = {t for t in overwritable(step.computation, name) if layouts.get(t) == layouts.get(name)}
    free = kept = 0
    for tensor, operand in zip(step.computation.inputs, step.inputs, strict=True):
        if tensor.name in tensors and isinstance(operand, ValueRef):
            free |= operand_reads(operand)
        else:
            kept |= operand_reads(operand)
    return free & ~kept
