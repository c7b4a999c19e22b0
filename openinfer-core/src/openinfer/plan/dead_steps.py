"""Dead steps: they cannot fail and nobody reads their results, such as zeros that the next operator overwrites."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.plan.accesses import called, walk, writes
from openinfer.plan.failing import may_fail
from openinfer.plan.liveness import Liveness
from openinfer.plan.steps import LoopStep, Procedure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.plan.steps import Step


def without_dead_steps(
    procedures: Sequence[Procedure], wanted: int, kept: int
) -> tuple[tuple[Procedure, ...], Liveness]:
    """Return the procedures without steps whose results nobody reads, and the liveness of what is left.

    Steps that may fail stay: a program ends with the same errors wherever it runs.

    Args:
        wanted: values that are needed when the program ends, as bits.
        kept: those that live on between steps of the program: changes that come before a failure stay.
    """
    procedures = reached(procedures)
    while True:
        liveness = Liveness(procedures, wanted, kept)
        left = tuple(Procedure(p.name, _needed_steps(p.steps, liveness)) for p in procedures)
        if all(old.steps == new.steps for old, new in zip(procedures, left, strict=True)):
            return procedures, liveness
        procedures = left


def reached(procedures: Sequence[Procedure]) -> tuple[Procedure, ...]:
    """Return the procedures that the last one reaches; they come callees first.

    Others are those that only loops which never run, or statements after a return, would call.
    """
    wanted = {procedures[-1].name}
    for procedure in reversed(procedures):
        if procedure.name in wanted:
            wanted.update(name for step in walk(procedure.steps) for name in called(step))
    return tuple(procedure for procedure in procedures if procedure.name in wanted)


def _needed_steps(steps: Sequence[Step], liveness: Liveness) -> tuple[Step, ...]:
    left: list[Step] = []
    for step in steps:
        if writes(step) and not writes(step) & liveness.after(step) and not may_fail(step):
            continue
        if isinstance(step, LoopStep):
            body = _needed_steps(step.body, liveness)
            if body:
                left.append(replace(step, body=body))
            continue
        left.append(step)
    return tuple(left)
