"""Which results may lie in the memory of which inputs: those that are first written after the last read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.plan.accesses import Accesses, called, mask, members, walk
from openinfer.plan.parallel import spans
from openinfer.plan.steps import InputStep
from openinfer.plan.values import InputMemory, OutputMemory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import Step


def free_inputs(plan: ExecutionPlan) -> tuple[tuple[int, ...], ...]:
    """Return for each output the numbers of the inputs that it may overlap in any way, ascending."""
    accesses, taken = Accesses(plan.procedures), _taken(plan)
    inputs = {v.number: v.memory.number for v in plan.values if isinstance(v.memory, InputMemory)}
    outputs = {v.number: v.memory.number for v in plan.values if isinstance(v.memory, OutputMemory)}
    of_inputs, of_outputs = mask(inputs), mask(outputs)
    last_read: dict[int, int] = {}
    first_write: dict[int, int] = {}
    steps = plan.procedures[-1].steps
    for step, (first, last) in zip(steps, spans(steps), strict=True):
        read, written = accesses.of(step)
        for value in members(read & of_inputs):
            last_read[inputs[value]] = last
        for number in _taken_in(step, taken):
            last_read[number] = last
        for value in members((read | written) & of_outputs):
            first_write.setdefault(outputs[value], first)
    end, ports = len(plan.procedures[-1].steps), [last_read.get(number, -1) for number in range(len(plan.inputs))]
    return tuple(
        tuple(number for number, read in enumerate(ports) if read < first_write.get(output, end))
        for output in range(len(plan.outputs))
    )


def _taken(plan: ExecutionPlan) -> dict[str, frozenset[int]]:
    """Return the inputs that each procedure, or a procedure that it calls, copies from the caller with `InputStep`."""
    found: dict[str, frozenset[int]] = {}
    for procedure in plan.procedures:
        found[procedure.name] = frozenset(n for step in procedure.steps for n in _taken_in(step, found))
    return found


def _taken_in(step: Step, taken: dict[str, frozenset[int]]) -> Iterable[int]:
    for inner in walk((step,)):
        if isinstance(inner, InputStep):
            yield inner.number
        for name in called(inner):
            yield from taken[name]
