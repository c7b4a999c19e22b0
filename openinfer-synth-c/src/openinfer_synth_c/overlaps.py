"""Which results may lie in the memory of which inputs: those that are first written after the last read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.plan.accesses import Accesses, called, walk
from openinfer.plan.steps import InputStep
from openinfer.plan.values import InputMemory, OutputMemory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import Step


def free_pairs(plan: ExecutionPlan) -> frozenset[tuple[int, int]]:
    """Return the pairs of an input and an output, by number, that may overlap in any way."""
    accesses, taken = Accesses(plan.procedures), _taken(plan)
    inputs = {v.number: v.memory.number for v in plan.values if isinstance(v.memory, InputMemory)}
    outputs = {v.number: v.memory.number for v in plan.values if isinstance(v.memory, OutputMemory)}
    last_read: dict[int, int] = {}
    first_write: dict[int, int] = {}
    for at, step in enumerate(plan.procedures[-1].steps):
        read, written = accesses.of(step)
        for value, number in inputs.items():
            if read >> value & 1:
                last_read[number] = at
        for number in _taken_in(step, taken):
            last_read[number] = at
        for value, number in outputs.items():
            if (read | written) >> value & 1:
                first_write.setdefault(number, at)
    ports = ((i, o) for i in range(len(plan.inputs)) for o in range(len(plan.outputs)))
    end = len(plan.procedures[-1].steps)
    return frozenset((i, o) for i, o in ports if last_read.get(i, -1) < first_write.get(o, end))


def _taken(plan: ExecutionPlan) -> dict[str, frozenset[int]]:
    """Return the inputs that each procedure takes from the caller with `InputStep`, calls included."""
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
