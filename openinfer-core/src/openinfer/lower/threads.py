"""Computations for devices of many threads: a loop program for each stage, whose independent places are dealt out.

A loop over groups (`Bind.GROUP`) without threads of its own (`Bind.LOCAL`) means one thread for each iteration.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from openinfer.compute.substitution import numbered
from openinfer.loops import Bind, For
from openinfer.loops.coalesce import coalesced
from openinfer.loops.races import find_race
from openinfer.lower.invariant_loads import with_invariant_loads
from openinfer.lower.nests import nest
from openinfer.lower.perfect_nests import chain_of, nest_of
from openinfer.lower.product_teams import in_product_teams
from openinfer.lower.programs import lowered
from openinfer.lower.row_teams import in_row_teams
from openinfer.lower.tile_products import in_tile_products
from openinfer.lower.windows import with_windows
from openinfer.lower.word_lanes import in_words
from openinfer.schedule import plain, thread_tile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.affine import Var
    from openinfer.compute import Computation
    from openinfer.layout import Layout
    from openinfer.loops import Kernel, Statement
    from openinfer.schedule.threads import Threads

MOST_STAGES = 8
"""Most stages of one loop program."""


def threaded(
    computation: Computation,
    *,
    busy: int | None = None,
    words: bool = False,
    layouts: Mapping[str, Layout] | None = None,
) -> tuple[Kernel, ...]:
    """Return the loop programs of a computation, to be run one after the other: one for each stage that has places.

    Places that do not disturb one another get a thread each; what is left, such as the terms of a fold or updates that
    may meet, is done by the thread in the order of the stage. The buffers of a program are what its stage reads, then
    what it writes. Results have the bits of `openinfer.compute.evaluate`.

    Sums, such as those of products, may be computed in tiles, several results a thread, if ``busy`` threads are left
    (`openinfer.schedule.thread_tile`); None: they are not. With ``words`` a thread computes as many neighbours as make
    16 bytes (`openinfer.lower.word_lanes`). ``layouts`` are those of tensors that are not in row-major order.
    """
    all_layouts = layouts or {}
    single = (numbered(_of_one_stage(computation, number)) for number in range(len(computation.stages)))
    kernels = (
        (part, lowered(part, _of(all_layouts, part), schedules={0: plain(part.stages[0].axes)})) for part in single
    )
    tiles = None if all_layouts else busy
    dealt = (_for_threads(part, _dealt(kernel), tiles, words=words) for part, kernel in kernels if kernel.body)
    return tuple(map(with_invariant_loads, dealt))


def _of(layouts: Mapping[str, Layout], part: Computation) -> dict[str, Layout]:
    names = {tensor.name for tensor in (*part.inputs, *part.outputs)}
    return {name: layout for name, layout in layouts.items() if name in names}


@dataclass(frozen=True, slots=True)
class Forms:
    """Loop programs for some stages of a computation, in several forms, the best first.

    Each form is a row of loop programs, to be run one after the other.
    """

    forms: tuple[tuple[Kernel, ...], ...]


def dealt_out(
    computation: Computation, device: Threads, layouts: Mapping[str, Layout] | None = None
) -> Iterator[Forms]:
    """Yield what carries out the stages of a computation on a device, in their order.

    Stages that go along the same rows are one loop program (`openinfer.lower.row_teams`). The last form of all has a
    thread for each place (`threaded`), which devices that end long loops may divide (`openinfer.lower.runs`).

    Args:
        layouts: of tensors that are not in row-major order.
    """
    all_layouts = layouts or {}
    begin = 0
    while begin < len(computation.stages):
        end, team = _longest_team(computation, begin, device, all_layouts)
        part = _of_stages(computation, begin, end)
        forms = [threaded(part, busy=device.busy, words=True, layouts=all_layouts), threaded(part, layouts=all_layouts)]
        if team is not None:
            forms.insert(0, (team,))
        if forms[-1]:
            yield Forms(tuple(forms))
        begin = end


def _longest_team(
    computation: Computation, begin: int, device: Threads, layouts: Mapping[str, Layout]
) -> tuple[int, Kernel | None]:
    """Return the end of the stages from ``begin`` on that are one loop program for teams of threads, and it."""
    first = numbered(_of_stages(computation, begin, begin + 1))
    product = in_tile_products(first, device, layouts) or in_product_teams(first, device, layouts)
    if product is not None:
        return begin + 1, product
    for end in range(min(len(computation.stages), begin + MOST_STAGES), begin, -1):
        team = in_row_teams(numbered(_of_stages(computation, begin, end)), device, layouts)
        if team is not None:
            return end, team
    return begin + 1, None


def _for_threads(part: Computation, kernel: Kernel, busy: int | None, *, words: bool) -> Kernel:
    """Return the loop program of a stage in the best form for threads; ``kernel`` has one thread for each element."""
    worded = in_words(kernel) if words else None
    if worded is not None or busy is None:
        return worded or kernel
    return _in_tiles(part, kernel, busy) or with_windows(kernel)


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


def _of_stages(computation: Computation, begin: int, end: int) -> Computation:
    """Return some stages as a computation: its temporaries are what no other stage reads."""
    stages = computation.stages[begin:end]
    tensors = (*computation.inputs, *computation.outputs, *computation.temporaries)
    written = {stage.tensor for stage in stages}
    others = (*computation.stages[:begin], *computation.stages[end:])
    shared = {tensor.name for tensor in computation.outputs} | {name for stage in others for name in stage.tensors_read}
    read = {name for stage in stages for name in stage.tensors_read}
    is_whole = len(stages) == len(computation.stages)
    return replace(
        computation,
        name=computation.name if is_whole else f"{computation.name}_{begin}",
        inputs=tuple(tensor for tensor in tensors if tensor.name in read - written),
        outputs=tuple(tensor for tensor in tensors if tensor.name in written & shared),
        stages=stages,
        temporaries=tuple(tensor for tensor in tensors if tensor.name in written - shared),
    )


def _of_one_stage(computation: Computation, number: int) -> Computation:
    stage = computation.stages[number]
    tensors = (*computation.inputs, *computation.outputs, *computation.temporaries)
    return replace(
        computation,
        name=computation.name if len(computation.stages) == 1 else f"{computation.name}_{number}",
        inputs=tuple(tensor for tensor in tensors if tensor.name in stage.tensors_read - {stage.tensor}),
        outputs=(computation.tensor(stage.tensor),),
        stages=(stage,),
        temporaries=(),
    )


def _dealt(kernel: Kernel) -> Kernel:
    """Return a loop program whose independent outer loops are over threads, and enclose the others."""
    axes, body = nest_of(coalesced(kernel).body)
    independent = [axis for axis in axes if not _disturbs(axis, axes, body)]
    body = nest([axis for axis in axes if axis not in independent], body)
    for axis in reversed(independent):
        body = (For(axis, Bind.GROUP, body),)
    return replace(kernel, body=body)


def _disturbs(axis: Var, axes: Sequence[Var], body: tuple[Statement, ...]) -> bool:
    others = nest([other for other in axes if other != axis], body)
    return find_race(axis, Bind.GROUP, others) is not None
