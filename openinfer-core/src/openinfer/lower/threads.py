"""Computations for devices of many threads: a loop program for each stage, whose independent places are dealt out.

A loop over groups (`Bind.GROUP`) without threads of its own (`Bind.LOCAL`) means one thread for each iteration.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from openinfer.compute import Read
from openinfer.loops import Bind, For
from openinfer.loops.coalesce import coalesced
from openinfer.loops.races import find_race
from openinfer.lower.invariant_loads import with_invariant_loads
from openinfer.lower.nests import nest
from openinfer.lower.perfect_nests import chain_of, nest_of
from openinfer.lower.programs import lowered
from openinfer.lower.rows import in_rows
from openinfer.schedule import plain, thread_tile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Var
    from openinfer.compute import Computation
    from openinfer.layout import Layout
    from openinfer.loops import Kernel, Statement


def threaded(
    computation: Computation,
    *,
    rows: bool = True,
    busy: int | None = None,
    layouts: Mapping[str, Layout] | None = None,
) -> tuple[Kernel, ...]:
    """Return the loop programs of a computation, to be run one after the other: one for each stage that has places.

    Places that do not disturb one another get a thread each; what is left, such as the terms of a fold or updates that
    may meet, is done by the thread in the order of the stage. The buffers of a program are what its stage reads, then
    what it writes. Results have the bits of `openinfer.compute.evaluate`, but for sums of free order: with ``rows`` a
    long one whose terms lie in a row is added up by a group of threads (`openinfer.lower.rows`).

    Other sums, such as those of products, may be computed in tiles, several results a thread, if ``busy`` threads are
    left (`openinfer.schedule.thread_tile`); None: they are not. ``layouts`` are those of tensors that are not in
    row-major order.
    """
    known = layouts or {}
    single = (_of_one_stage(computation, number) for number in range(len(computation.stages)))
    kernels = ((part, lowered(part, _of(known, part), schedules={0: plain(part.stages[0].axes)})) for part in single)
    tiles = None if known else busy
    dealt = (_for_threads(part, _dealt(kernel), rows=rows, busy=tiles) for part, kernel in kernels if kernel.body)
    return tuple(map(with_invariant_loads, dealt))


def _of(layouts: Mapping[str, Layout], part: Computation) -> dict[str, Layout]:
    names = {tensor.name for tensor in (*part.inputs, *part.outputs)}
    return {name: layout for name, layout in layouts.items() if name in names}


def _for_threads(part: Computation, kernel: Kernel, *, rows: bool, busy: int | None) -> Kernel:
    """Return the loop program of a stage in the best form for threads; ``kernel`` has one for each place."""
    (stage,) = part.stages
    by_rows = in_rows(kernel, stage.fold) if rows and stage.fold is not None else None
    if by_rows is not None:
        return by_rows
    return (None if busy is None else _in_tiles(part, kernel, busy)) or kernel


def _in_tiles(part: Computation, kernel: Kernel, busy: int) -> Kernel | None:
    """Return a loop program with a tile of places for each thread; None where places are not all independent."""
    (stage,) = part.stages
    schedule = thread_tile(stage, busy)
    if schedule is None:
        return None
    tiled = _dealt(lowered(part, schedules={0: schedule}))
    tile = prod(loop.step for loop in schedule.loops)
    return tiled if tile * _count(_groups(tiled)) == _count(_groups(kernel)) == _count(stage.axes) else None


def _groups(kernel: Kernel) -> list[Var]:
    return chain_of(kernel.body, Bind.GROUP)[0]


def _count(axes: Sequence[Var]) -> int:
    return prod(axis.extent if isinstance(axis.extent, int) else 0 for axis in axes)


def _of_one_stage(computation: Computation, number: int) -> Computation:
    stage = computation.stages[number]
    tensors = (*computation.inputs, *computation.outputs, *computation.temporaries)
    read = {element.tensor for element in stage.elements if isinstance(element, Read)}
    return replace(
        computation,
        name=computation.name if len(computation.stages) == 1 else f"{computation.name}_{number}",
        inputs=tuple(tensor for tensor in tensors if tensor.name in read - {stage.tensor}),
        outputs=(computation.tensor(stage.tensor),),
        stages=(stage,),
        temporaries=(),
    )


def _dealt(kernel: Kernel) -> Kernel:
    """Return a loop program whose independent outer loops are over threads, and stand outside of the others."""
    axes, body = nest_of(coalesced(kernel).body)
    independent = [axis for axis in axes if not _disturbs(axis, axes, body)]
    body = nest([axis for axis in axes if axis not in independent], body)
    for axis in reversed(independent):
        body = (For(axis, Bind.GROUP, body),)
    return replace(kernel, body=body)


def _disturbs(axis: Var, axes: Sequence[Var], body: tuple[Statement, ...]) -> bool:
    others = nest([other for other in axes if other != axis], body)
    return find_race(axis, Bind.GROUP, others) is not None
