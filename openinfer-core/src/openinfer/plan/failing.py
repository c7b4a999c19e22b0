"""Which steps may end a step of the program with an error: what states hold then stays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.plan.accesses import changed_registers, members, writes
from openinfer.plan.steps import (
    BarrierStep,
    CallStep,
    ComputeStep,
    CopyStep,
    FillStep,
    InputStep,
    LoopStep,
    ReturnStep,
    TableRef,
)
from openinfer.plan.values import StateMemory

if TYPE_CHECKING:
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import Operand, Step


def may_fail(step: Step) -> bool:
    """Whether a step itself may end the program with an error; steps of which little is known may."""
    if isinstance(step, FillStep | BarrierStep | ReturnStep):
        return False
    if isinstance(step, InputStep):
        return step.count is not None
    if isinstance(step, CopyStep):
        return step.count is not None or _is_checked(step.source)
    if not isinstance(step, ComputeStep):
        return True
    return any(map(_is_checked, step.inputs)) or bool(step.arguments) or refuses_elements(step)


def refuses_elements(step: Step) -> bool:
    """Whether a step may refuse an element that it reads, such as an index that is out of range."""
    return isinstance(step, ComputeStep) and any(stage.lookups or stage.checks for stage in step.computation.stages)


def changes_state(step: Step, plan: ExecutionPlan) -> bool:
    """Whether a step itself changes what is kept between steps: a state, or how far a cache has grown."""
    if isinstance(step, LoopStep | CallStep):
        return False
    if any(plan.registers[register].is_kept for register in changed_registers(step)):
        return True
    return any(isinstance(plan.values[value].memory, StateMemory) for value in members(writes(step)))


def _is_checked(operand: Operand) -> bool:
    return isinstance(operand, TableRef) and operand.checked
