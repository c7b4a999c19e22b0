"""What would make a program smaller on a device with little memory: RAM, flash and cycles, where most of each goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.diagnostics import printable
from openinfer.plan.accesses import members, operands, reads, writes
from openinfer.plan.report import numbered_steps
from openinfer.plan.steps import ValueRef
from openinfer.plan.values import ArenaMemory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openinfer.estimate.steps import PlanEstimate, StepEstimate
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import Step

_FEW = 64
"""Elements up to which floats are scales and biases, which stay floats."""


def advice_lines(plan: ExecutionPlan, estimate: PlanEstimate) -> Iterator[str]:
    """Yield up to three lines for a device whose memories are listed: what to change for less RAM, flash and cycles."""
    if plan.arch is None or not plan.arch.memories:
        return
    largest = estimate.at(plan.given_sizes)
    steps = dict(numbered_steps(plan))
    yield from _ram(plan, largest, steps)
    yield from _flash(plan, largest, steps)
    yield from _cycles(plan, largest, steps)


def _ram(plan: ExecutionPlan, estimate: PlanEstimate, steps: dict[int, Step]) -> Iterator[str]:
    """The layer at whose step most bytes of the arena are live, and what other layers need."""
    ports = sum(port.type.nbytes for port in (*plan.inputs, *plan.outputs))
    if ports > plan.arena_nbytes:
        wide = max((*plan.inputs, *plan.outputs), key=lambda port: port.type.nbytes)
        taken = f"{wide.name} ({wide.type}), which is the caller's, takes {wide.type.nbytes:,} bytes"
        yield f"RAM: {taken}: fewer elements, or a type of fewer bits"
        return
    peak = max(estimate.steps, key=lambda step: step.live_nbytes, default=None)
    if peak is None or not peak.live_nbytes:
        return
    held = members(reads(steps[peak.number]) | writes(steps[peak.number]))
    values = [plan.values[number] for number in held if isinstance(plan.values[number].memory, ArenaMemory)]
    values.sort(key=lambda value: -value.stored.nbytes)
    names = ", ".join(f"{value.name} ({value.stored.nbytes:,})" for value in values[:2])
    others = max((step.live_nbytes for step in estimate.steps if step is not peak), default=0)
    more = peak.live_nbytes - others
    where = f"{more:,} more than elsewhere" if more else "as at another step"
    live = f"at step {peak.number} {peak.live_nbytes:,} bytes are live, {where}"
    yield f"RAM: {live}: smaller {names}"


def _flash(plan: ExecutionPlan, estimate: PlanEstimate, steps: dict[int, Step]) -> Iterator[str]:
    """Weights that are floats, or the step that reads most."""
    floats = sum(w.stored.nbytes for w in plan.weights if w.type.dtype.is_float and w.type.count > _FEW)
    if 2 * floats > plan.weights_nbytes:
        kept = f"`openinfer quantize` saves about {floats - floats // 4:,} and most of the RAM"
        yield f"flash: {floats:,} bytes of weights are floats: {kept}"
        return
    step = max(estimate.steps, key=lambda step: step.weight_nbytes, default=None)
    if step is not None and step.weight_nbytes:
        share = 100 * step.weight_nbytes / max(plan.weights_nbytes, 1)
        read = f"{_called(plan, steps, step)} reads {step.weight_nbytes:,} bytes of weights"
        yield f"flash: {read}, {share:.0f} % of all: fewer channels there"


def _cycles(plan: ExecutionPlan, estimate: PlanEstimate, steps: dict[int, Step]) -> Iterator[str]:
    """The step that takes most cycles."""
    counted = [(step, step.counted_cycles * (step.times or 1)) for step in estimate.steps if step.counted_cycles]
    if counted and estimate.cycles:
        step, cycles = max(counted, key=lambda pair: pair[1])
        yield f"cycles: {_called(plan, steps, step)} takes {100 * cycles / estimate.cycles:.0f} % of them"


def _called(plan: ExecutionPlan, steps: dict[int, Step], estimate: StepEstimate) -> str:
    """Return the number of a step and what it computes."""
    step = steps[estimate.number]
    read = next((plan.values[o.value].name for o in operands(step) if isinstance(o, ValueRef)), "")
    written = next((plan.values[number].name for number in members(writes(step))), "")
    return printable(f"step {estimate.number} ({read} >> {written})")
