"""Programs with other steps, the bodies of loops included."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.plan.steps import ComputeStep, LoopStep, Procedure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from openinfer.plan.steps import Step


def with_steps(procedures: Sequence[Procedure], change: Callable[[Step], Iterable[Step]]) -> tuple[Procedure, ...]:
    """Return a program with what ``change`` returns in place of each step that is not a loop, in order."""

    def changed(step: Step) -> Iterable[Step]:
        return (replace(step, body=steps(step.body)),) if isinstance(step, LoopStep) else change(step)

    def steps(body: Sequence[Step]) -> tuple[Step, ...]:
        return tuple(made for step in body for made in changed(step))

    return tuple(Procedure(p.name, steps(p.steps)) for p in procedures)


def with_computations(
    procedures: Sequence[Procedure], change: Callable[[ComputeStep], Iterable[Step]]
) -> tuple[Procedure, ...]:
    """Return a program with what ``change`` returns in place of each step that computes."""
    return with_steps(procedures, lambda step: change(step) if isinstance(step, ComputeStep) else (step,))


def with_bodies(
    procedures: Sequence[Procedure], change: Callable[[Sequence[Step]], Sequence[Step]]
) -> tuple[Procedure, ...]:
    """Return a program with what ``change`` returns in place of each body, those of inner loops first."""

    def changed(body: Sequence[Step]) -> tuple[Step, ...]:
        inner = [replace(step, body=changed(step.body)) if isinstance(step, LoopStep) else step for step in body]
        return tuple(change(inner))

    return tuple(Procedure(p.name, changed(p.steps)) for p in procedures)
