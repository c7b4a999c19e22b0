"""Computations for devices of many threads: a loop program for each stage, whose independent places are dealt out.

A loop over groups (`Bind.GROUP`) without threads of its own (`Bind.LOCAL`) means one thread for each iteration.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.compute import Read
from openinfer.loops import Bind, Fail, For, Let, Lookup
from openinfer.loops.coalesce import coalesced
from openinfer.loops.races import find_race
from openinfer.lower.nests import nest
from openinfer.lower.programs import lowered
from openinfer.lower.runs import set_in
from openinfer.schedule import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.affine import Var
    from openinfer.compute import Computation
    from openinfer.loops import Kernel, Statement


def threaded(computation: Computation) -> tuple[Kernel, ...]:
    """Return the loop programs of a computation, to be run one after the other: one for each stage that has places.

    Places that do not disturb one another get a thread each; what is left, such as the terms of a fold or updates that
    may meet, is done by the thread in the order of the stage. The buffers of a program are what its stage reads, then
    what it writes. Results have the bits of `openinfer.compute.evaluate`.
    """
    single = (_of_one_stage(computation, number) for number in range(len(computation.stages)))
    kernels = (lowered(part, schedules={0: plain(part.stages[0].axes)}) for part in single)
    return tuple(_dealt(kernel) for kernel in kernels if kernel.body)


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
    axes, body = _nest(coalesced(kernel).body)
    independent = [axis for axis in axes if not _disturbs(axis, axes, body)]
    body = nest([axis for axis in axes if axis not in independent], body)
    for axis in reversed(independent):
        body = (For(axis, Bind.GROUP, body),)
    return replace(kernel, body=body)


def _nest(body: tuple[Statement, ...]) -> tuple[list[Var], tuple[Statement, ...]]:
    """Return the axes of loops that stand one in the other, and what is inside.

    What is named or looked up between two loops is done inside of both: again and again, with the same result.
    """
    axes: list[Var] = []
    between: list[Statement] = []
    while body:
        *before, last = body
        if not isinstance(last, For) or not _may_repeat(before, last.body):
            break
        axes.append(last.var)
        between += before
        body = last.body
    return axes, (*between, *body)


def _may_repeat(statements: Sequence[Statement], inside: Sequence[Statement]) -> bool:
    """Return whether statements before a loop may be carried out in each of its iterations instead."""
    if not all(isinstance(statement, Let | Lookup | Fail) for statement in statements):
        return False
    named = {statement.name for statement in statements if isinstance(statement, Let)}
    return named.isdisjoint(set_in(inside))


def _disturbs(axis: Var, axes: Sequence[Var], body: tuple[Statement, ...]) -> bool:
    others = nest([other for other in axes if other != axis], body)
    return find_race(axis, Bind.GROUP, others) is not None
