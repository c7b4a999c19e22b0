"""Loop programs of steps, and which of a plan's operands their buffers are."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from openinfer.loops.backwards import backwards
from openinfer.loops.coalesce import coalesced
from openinfer.loops.fusion import fused
from openinfer.loops.unread import without_unread
from openinfer.lower import lowered
from openinfer.lower.prefetches import with_prefetches
from openinfer.lower.reached import failing_where_reached
from openinfer.plan.step_edits import operands_by_tensor
from openinfer.plan.steps import ComputeStep, ValueRef
from openinfer.plan.stride_versions import in_versions

if TYPE_CHECKING:
    from openinfer.compute import Computation
    from openinfer.loops import Kernel
    from openinfer.plan.steps import Arrangement, LoopProgramStep, Operand


def loop_program(step: ComputeStep | LoopProgramStep) -> Kernel:
    """Return the loop program of a step; equal steps of a program share it."""
    if isinstance(step, ComputeStep):
        return _in_versions(step.computation, step.arrangement)
    return without_unread(coalesced(step.kernel))


def operands_of(step: ComputeStep | LoopProgramStep) -> dict[str, Operand]:
    """Return what each buffer of a step's loop program is, by name of the buffer."""
    if isinstance(step, ComputeStep):
        return operands_by_tensor(step)
    operands = (*step.inputs, *map(ValueRef, step.outputs))
    return dict(zip((buffer.name for buffer in step.kernel.buffers), operands, strict=True))


@lru_cache(maxsize=1024)
def _in_versions(computation: Computation, arrangement: Arrangement) -> Kernel:
    return in_versions(computation, arrangement, _lowered)


def _lowered(computation: Computation, arrangement: Arrangement) -> Kernel:
    schedules = dict(enumerate(arrangement.schedules))
    layouts = dict(arrangement.layouts)
    fusion, sliding = arrangement.fusion, arrangement.sliding
    kernel = lowered(computation, layouts, arrangement.target, schedules, fusion=fusion, sliding=sliding)
    made = without_unread(fused(coalesced(kernel)))
    if arrangement.backwards:
        made = backwards(made) or made
    return with_prefetches(failing_where_reached(made), arrangement.target)
