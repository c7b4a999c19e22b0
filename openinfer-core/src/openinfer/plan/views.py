"""Reads of caches that copy nothing: the value is memory of the cache, which does not change while it is needed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.plan.accesses import mask, members, reads, walk, writes
from openinfer.plan.sharing import copies
from openinfer.plan.steps import LoadStep, LoopStep, Procedure
from openinfer.plan.values import NoMemory, ViewMemory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.plan.draft import Draft
    from openinfer.plan.liveness import Liveness
    from openinfer.plan.steps import Step
    from openinfer.plan.values import PlanValue


def with_views(
    draft: Draft, procedures: Sequence[Procedure], values: Sequence[PlanValue], liveness: Liveness
) -> tuple[tuple[Procedure, ...], tuple[PlanValue, ...]]:
    """Return the plan with views for reads of rows of a cache that is not written while the value is needed.

    Copies of the value may lie in the same memory (`openinfer.plan.sharing`), so they count as well.
    """
    sources = {value: source for value, source in _sources(procedures).items() if source is not None}
    found = {
        value: source
        for value, source in sources.items()
        if value in draft.views and isinstance(values[value].memory, NoMemory)
    }
    copied = {value: _with_copies(value, procedures) for value in found}
    for procedure in procedures:
        for step in walk(procedure.steps):
            changed = writes(step)
            needed = liveness.after(step) | reads(step) if changed else 0
            for value, source in list(found.items()):
                if changed >> source & 1 and needed & copied[value]:
                    del found[value]
    registers = {value: draft.views[value] for value in found}
    placed = tuple(
        replace(value, memory=ViewMemory(found[value.number], registers[value.number]))
        if value.number in found
        else value
        for value in values
    )
    return tuple(Procedure(p.name, _steps(p.steps, registers)) for p in procedures), placed


def _sources(procedures: Sequence[Procedure]) -> dict[int, int | None]:
    """Return the state that each value is read from; None where something else writes it too."""
    found: dict[int, int | None] = {}
    for procedure in procedures:
        for step in walk(procedure.steps):
            source = step.source if isinstance(step, LoadStep) and step.is_contiguous else None
            for value in members(writes(step)):
                found[value] = source if found.get(value, source) == source else None
    return found


def _with_copies(value: int, procedures: Sequence[Procedure]) -> int:
    """Return a value and all that copies make of it, as bits."""
    every = list(copies(procedures))
    found, size = 1 << value, 0
    while found.bit_count() > size:
        size = found.bit_count()
        found |= mask(output for source, output in every if found >> source & 1)
    return found


def _steps(steps: Sequence[Step], registers: dict[int, int]) -> tuple[Step, ...]:
    return tuple(_step(step, registers) for step in steps)


def _step(step: Step, registers: dict[int, int]) -> Step:
    if isinstance(step, LoopStep):
        return replace(step, body=_steps(step.body, registers))
    if isinstance(step, LoadStep) and step.output in registers:
        return replace(step, view=registers[step.output])
    return step
