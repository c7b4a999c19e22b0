"""Codes that replace the image of their own layer, as in a loop over dense layers of one variable.

A product that reads all of a variable for each element of its result cannot write over it. Were the result stored
before its last operators, these would be a step of their own on wider elements. So codes are written apart, and copied.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.dtypes import I8, U8
from openinfer.plan.accesses import mask, reads, writes
from openinfer.plan.rewriting import with_bodies
from openinfer.plan.steps import ComputeStep, CopyStep, ValueRef

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.plan.draft import Draft
    from openinfer.plan.steps import Procedure, Step


def with_codes_apart(procedures: Sequence[Procedure], draft: Draft) -> tuple[Procedure, ...]:
    """Return the program with a copy after such codes; the draft grows by the values that are copied."""
    return with_bodies(
        procedures,
        lambda steps: [made for at, step in enumerate(steps) for made in _of_step(steps[:at], step, draft)],
    )


def _of_step(before: Sequence[Step], step: Step, draft: Draft) -> Iterator[Step]:
    if isinstance(step, ComputeStep) and _are_of_themselves(before, step, draft):
        (result,) = step.outputs
        variable = draft.values[result]
        apart = draft.intermediate(f"{variable.name}.codes", variable.type)
        yield replace(step, outputs=(apart,))
        yield CopyStep(origin=step.origin, source=ValueRef(apart), output=result)
    else:
        yield step


def _are_of_themselves(before: Sequence[Step], step: ComputeStep, draft: Draft) -> bool:
    """Whether a step makes codes of sums, computed in its list, over the variable that it writes."""
    if len(step.outputs) != 1 or step.arguments or _folds(step):
        return False
    (result,), wanted = step.outputs, reads(step)
    if draft.values[result].type.dtype not in (I8, U8) or wanted >> result & 1:
        return False
    for earlier in reversed(before):
        if not writes(earlier) & wanted:
            continue
        if not isinstance(earlier, ComputeStep):
            return False
        if _folds(earlier):
            return bool(reads(earlier) >> result & 1)
        wanted = wanted & ~mask(earlier.outputs) | reads(earlier)
    return False


def _folds(step: ComputeStep) -> bool:
    return any(stage.fold is not None for stage in step.computation.stages)
