"""Views of states that begin at a place that is known at run time only, and tests that they end within the state.

The steps that found the place and the length have tested both. It is said again at calls, where the analyser Eva knows
no relation between the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.codegen import loop_program, operands_of
from openinfer.plan.accesses import walk
from openinfer.plan.steps import ComputeStep, LoadStep, ValueRef
from openinfer.plan.values import ViewMemory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from openinfer.affine import Var
    from openinfer.layout import Layout
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import CopyStep, LoopProgramStep


def moving_registers(plan: ExecutionPlan) -> frozenset[int]:
    """Return the registers of views of which a range begins at a place that is known at run time only."""
    steps = (step for procedure in plan.procedures for step in walk(procedure.steps))
    return frozenset(
        step.view
        for step in steps
        if isinstance(step, LoadStep)
        and step.view is not None
        and any(axis.start.constant is None for axis in step.region.ranges)
    )


@dataclass(frozen=True, slots=True)
class ViewBound:
    """A view that ends within its state: its register, and how many elements of the state follow that it spans."""

    register: int
    span: Index
    room: int


def view_bounds(
    plan: ExecutionPlan, step: ComputeStep | LoopProgramStep, moving: frozenset[int]
) -> tuple[ViewBound, ...]:
    """Return the bounds of the views that a step reads.

    Args:
        moving: the registers of views that matter.
    """
    bounds: dict[ViewBound, None] = {}
    for name, operand in operands_of(step).items() if moving else ():
        value = plan.values[operand.value] if isinstance(operand, ValueRef) else None
        if value is not None and isinstance(value.memory, ViewMemory) and value.memory.register in moving:
            span = _span(_shape(step, name), value.layout)
            bounds[ViewBound(value.memory.register, span, plan.values[value.memory.state].type.count)] = None
    return tuple(bounds)


def source_of_copy(plan: ExecutionPlan, step: CopyStep, moving: frozenset[int]) -> ViewMemory | None:
    """Return the view that a step copies, where it begins at a place that is known at run time only; else None."""
    memory = plan.values[step.source.value].memory if isinstance(step.source, ValueRef) else None
    return memory if isinstance(memory, ViewMemory) and memory.register in moving else None


def _shape(step: ComputeStep | LoopProgramStep, name: str) -> tuple[Index, ...]:
    if isinstance(step, ComputeStep):
        return next(tensor.shape for tensor in step.computation.inputs if tensor.name == name)
    return next((buffer.size,) for buffer in step.kernel.buffers if buffer.name == name)


def _span(shape: tuple[Index, ...], layout: Layout | None) -> Index:
    """Return how many elements of the state lie from the first one of a view to the last."""
    total = Index.of(1)
    if layout is None:
        for extent in shape:
            total = total * extent
        return total
    last = Index()
    for digit in layout.digits:
        last = last * digit.extent + shape[digit.dim] - 1
    return last + 1


def followed_lengths(step: ComputeStep | LoopProgramStep, bounds: Iterable[ViewBound]) -> tuple[Var, ...]:
    """Return the parameters of a step that views of it span: the analyser has to know their values."""
    names = {var.name for bound in bounds for var in bound.span.variables()}
    return tuple(var for var in loop_program(step).parameters if var.name in names)
