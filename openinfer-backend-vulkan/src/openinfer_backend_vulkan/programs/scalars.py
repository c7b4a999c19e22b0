"""Which values of a plan the host computes by itself: positions, counters, bounds of loops."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from openinfer.dtypes import Kind
from openinfer.plan.accesses import integer_reads, members, walk, writes
from openinfer.plan.steps import CopyStep, CountStep, FillStep, InputStep, LoopIndex, ValueRef
from openinfer.plan.values import WeightMemory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openinfer.dtypes import DType
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import Step
    from openinfer.plan.values import PlanValue


def steps_of(plan: ExecutionPlan) -> Iterator[Step]:
    """Yield every step of a plan, those of its reset included."""
    return chain(walk(plan.reset), *(walk(procedure.steps) for procedure in plan.procedures))


def read_by_host(plan: ExecutionPlan) -> frozenset[int]:
    """Return the values that decide what steps do."""
    bits = 0
    for step in steps_of(plan):
        bits |= integer_reads(step)
    return frozenset(members(bits))


def kept_by_host(plan: ExecutionPlan) -> frozenset[int]:
    """Return the integers that no kernel computes: the host has them without waiting for the device."""
    writers: dict[int, list[Step]] = {}
    for step in steps_of(plan):
        for value in members(writes(step)):
            writers.setdefault(value, []).append(step)
    kept = {value.number for value in plan.values if _is_integer(value) and writers.get(value.number)}
    weights = {value.number for value in plan.values if _is_integer(value) and is_weight(value)}
    while True:
        lost = {value for value in kept if not all(_is_simple(step, kept | weights) for step in writers[value])}
        if not lost:
            return frozenset(kept)
        kept -= lost


def is_weight(value: PlanValue) -> bool:
    """Whether a value comes with the program."""
    return isinstance(value.memory, WeightMemory)


def wrapped(number: int, dtype: DType) -> int:
    """Return what an integer type holds of a number: it wraps at its width."""
    if dtype.kind is Kind.BOOL:
        return int(bool(number))
    low = dtype.minimum or 0
    return (number - low) % (1 << dtype.bits) + low


def _is_integer(value: PlanValue) -> bool:
    dtype = value.type.dtype
    return not value.type.shape and not dtype.is_packed and (dtype.is_integer or dtype.kind is Kind.BOOL)


def _is_simple(step: Step, kept: set[int]) -> bool:
    """Whether a step gives a value that the host knows, if it knows some others."""
    match step:
        case CopyStep(source=ValueRef(value)):
            return value in kept
        case CopyStep(source=LoopIndex()) | FillStep() | CountStep() | InputStep():
            return True
        case _:
            return False
