"""Which steps may end a step of the program with an error: what states hold then stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.plan.steps import BarrierStep, ComputeStep, FillStep, ReturnStep, TableRef

if TYPE_CHECKING:
    from openinfer.plan.steps import Step


def may_fail(step: Step) -> bool:
    """Whether a step itself may end the program with an error; steps of which little is known may."""
    if isinstance(step, FillStep | BarrierStep | ReturnStep):
        return False
    if not isinstance(step, ComputeStep):
        return True
    indexed = any(isinstance(operand, TableRef) and operand.checked for operand in step.inputs)
    return indexed or bool(step.arguments) or any(stage.lookups or stage.checks for stage in step.computation.stages)
