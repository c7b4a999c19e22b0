"""Reads of caches that copy nothing: the value is memory of the cache, which does not change while it is needed."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.layout import Digit, Layout
from openinfer.plan.accesses import mask, members, reads, walk, writes
from openinfer.plan.parallel import parallel
from openinfer.plan.rewriting import with_steps
from openinfer.plan.sharing import copies
from openinfer.plan.steps import ComputeStep, LoadStep, LoopStep
from openinfer.plan.values import NoMemory, ViewMemory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.plan.draft import Draft
    from openinfer.plan.liveness import Liveness
    from openinfer.plan.steps import Procedure, Step
    from openinfer.plan.values import PlanValue


def with_views(
    draft: Draft, procedures: Sequence[Procedure], values: Sequence[PlanValue], liveness: Liveness
) -> tuple[tuple[Procedure, ...], tuple[PlanValue, ...]]:
    """Return the plan with views for reads of a cache that is not written while the value is needed.

    Elements that lie apart are a view where only computations read them, which take them from where they lie.

    Copies of the value may lie in the same memory (`openinfer.plan.sharing`), so they count as well.
    """
    sources = {value: source for value, source in _sources(procedures).items() if source is not None}
    layouts = _layouts(procedures, values)
    source_of = {
        value: source
        for value, source in sources.items()
        if value in draft.views and isinstance(values[value].memory, NoMemory) and value in layouts
    }
    copied = {value: _with_copies(value, procedures) for value in source_of}
    for procedure in procedures:
        for step in walk(procedure.steps):
            changed = writes(step)
            needed = liveness.after(step) | reads(step) if changed else 0
            for value, source in list(source_of.items()):
                if changed >> source & 1 and needed & copied[value]:
                    del source_of[value]
    for pair in parallel(procedures):
        for one, other in (pair, pair[::-1]):
            for value, source in list(source_of.items()):
                if one.written >> source & 1 and other.every & copied[value]:
                    del source_of[value]
    registers = {value: draft.views[value] for value in source_of}
    placed = tuple(
        replace(
            value, memory=ViewMemory(source_of[value.number], registers[value.number]), layout=layouts[value.number]
        )
        if value.number in source_of
        else value
        for value in values
    )
    return with_steps(procedures, lambda step: (_viewed(step, registers),)), placed


def _sources(procedures: Sequence[Procedure]) -> dict[int, int | None]:
    """Return the state that each value is read from; None where something else writes it too."""
    sources: dict[int, int | None] = {}
    for procedure in procedures:
        for step in walk(procedure.steps):
            source = step.source if isinstance(step, LoadStep) else None
            for value in members(writes(step)):
                sources[value] = source if sources.get(value, source) == source else None
    return sources


def _layouts(procedures: Sequence[Procedure], values: Sequence[PlanValue]) -> dict[int, Layout | None]:
    """Return how values lie in the states that they are read from; None: in a row.

    Values whose elements lie apart in a way that some step cannot follow are not among them.
    """
    layouts: dict[int, Layout | None] = {}
    refused = set[int]()
    apart = 0
    steps = [step for procedure in procedures for step in walk(procedure.steps)]
    for step in steps:
        if not isinstance(step, LoadStep):
            continue
        layout = None if step.is_contiguous else _apart(step, values[step.output])
        if (not step.is_contiguous and layout is None) or layouts.get(step.output, layout) != layout:
            refused.add(step.output)
        layouts[step.output] = layout
        apart |= 0 if step.is_contiguous else 1 << step.output
    for step in steps:
        if not isinstance(step, ComputeStep | LoopStep):
            refused.update(members(reads(step) & apart))
    return {value: layout for value, layout in layouts.items() if value not in refused}


def _apart(step: LoadStep, value: PlanValue) -> Layout | None:
    """Return where the elements of a region lie, as digits with the extents of the state; None: they have none."""
    shape, ranges = value.type.shape, step.region.ranges
    entry = shape[len(ranges) :]
    strides = [axis.stride for axis in ranges] + [math.prod(entry[axis + 1 :]) for axis in range(len(entry))]
    # Bytes may be read as words, which lie in a row.
    if not ranges or strides[-1] != 1 or value.type.dtype.bits < 16:
        return None
    extents = [ranges[0].room, *(outer // inner for outer, inner in pairwise(strides))]
    if any(outer % inner for outer, inner in pairwise(strides)) or 0 in extents:
        return None
    digits = tuple(Digit(dim, 1, Index.of(extent)) for dim, extent in enumerate(extents))
    return Layout(tuple(map(Index.of, shape)), digits)


def _with_copies(value: int, procedures: Sequence[Procedure]) -> int:
    """Return a value and all that copies make of it, as bits."""
    every = list(copies(procedures))
    copied, size = 1 << value, 0
    while copied.bit_count() > size:
        size = copied.bit_count()
        copied |= mask(output for source, output in every if copied >> source & 1)
    return copied


def _viewed(step: Step, registers: dict[int, int]) -> Step:
    if isinstance(step, LoadStep) and step.output in registers:
        return replace(step, view=registers[step.output])
    return step
