"""Steps that go along the same rows, as one step: a group of threads then reads a row once and writes it once.

A norm is a mean, a difference, a mean of squares and a product: four steps, which read or write each element six times.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.lower.product_sides import product_of
from openinfer.lower.row_teams import holds_rows
from openinfer.lower.threads import MOST_STAGES
from openinfer.plan.accesses import operand_reads
from openinfer.plan.fusion import apart, may_join, one_after_the_other, operators
from openinfer.plan.passing import Entry, Passing
from openinfer.plan.steps import ComputeStep, LoopStep, Procedure, ValueRef
from openinfer.schedule.threads import MOST_THREADS, Threads

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.plan.fusion import Fusion
    from openinfer.plan.steps import Step

LARGEST = Threads(group=MOST_THREADS)
"""The largest groups of threads: what their registers hold of a row is the most that is worth joining for."""


def in_row_teams(procedures: Sequence[Procedure], around: Fusion) -> tuple[Procedure, ...]:
    """Return the procedures with steps along the same rows joined, for targets that choose schedules themselves.

    A step is joined with the only one that reads its result, if groups of threads can hold the rows of both. Others
    carry the stages of a joined step out one after the other, as they did before.
    """
    return tuple(Procedure(p.name, _joined_list(p.steps, around)) for p in procedures)


def _joined_list(steps: Sequence[Step], around: Fusion) -> tuple[Step, ...]:
    entries: list[Entry] = []
    for step in steps:
        inner = replace(step, body=_joined_list(step.body, around)) if isinstance(step, LoopStep) else step
        entries.append(Entry.of(inner, around.liveness.after(step), around.accesses))
    left = Passing(entries, around.kept)
    for position in reversed(range(len(entries))):
        at: int | None = position
        while at is not None:
            at = _join_forward(left, at, around)
    return left.steps()


def _join_forward(left: Passing, position: int, around: Fusion) -> int | None:
    """Join the step at ``position`` with the reader of its result; return the place of both, None: they stay apart."""
    producer, at = left[position].step, left.reader(position)
    if not isinstance(producer, ComputeStep) or isinstance(at, str):
        return None
    consumer, after = left[at].step, left[at].after
    if not isinstance(consumer, ComputeStep) or not _may_join(producer, consumer, after, around):
        return None
    joined = one_after_the_other(apart(producer, "made"), apart(consumer, "read"))
    if joined is None or not holds_rows(joined.computation, LARGEST):
        return None
    left.join(position, at, Entry.of(joined, after, around.accesses))
    return at


def _may_join(producer: ComputeStep, consumer: ComputeStep, after: int, around: Fusion) -> bool:
    """Whether both steps may be one, whose first stage folds rows, and nothing else reads the result of the first."""
    stages = (*producer.computation.stages, *consumer.computation.stages)
    if len(producer.outputs) != 1 or len(consumer.outputs) != 1 or len(stages) > MOST_STAGES:
        return False
    if stages[0].fold is None or product_of(stages[0]) is not None or not may_join(producer, consumer):
        return False
    if around.most_ops is not None and operators(producer) + operators(consumer) > around.most_ops:
        return False
    (result,) = producer.outputs
    others = (operand for operand in consumer.inputs if operand != ValueRef(result))
    is_last = result in consumer.outputs or not after >> result & 1
    return is_last and ValueRef(result) in consumer.inputs and not any(operand_reads(o) >> result & 1 for o in others)
