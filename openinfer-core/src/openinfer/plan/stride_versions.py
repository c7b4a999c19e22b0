"""Computations of dims that broadcast, in versions: one for extents that are equal, one for those that may be 1.

A step reads such a dim with a stride that it computes (`openinfer.dims.Stride`). Compilers read a run of elements with
vector instructions only where they know that it is 1, so the loop program has loops of their own for that.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.affine import Index, Within
from openinfer.compute import Read
from openinfer.compute.substitution import resized
from openinfer.dims import Stride
from openinfer.loops import If

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.affine import Var
    from openinfer.compute import Computation, Stage
    from openinfer.loops import Kernel
    from openinfer.plan.steps import Arrangement


def strides_of(computation: Computation) -> tuple[Stride, ...]:
    """Return the parameters of a computation that are strides."""
    return tuple(var for var in computation.parameters if isinstance(var, Stride))


def of_equal_extents(computation: Computation) -> Computation:
    """Return what a computation is where no extent is broadcast: its strides are 1."""
    return resized(computation, dict.fromkeys(strides_of(computation), Index.of(1)))


def in_versions(
    computation: Computation, arrangement: Arrangement, made: Callable[[Computation, Arrangement], Kernel]
) -> Kernel:
    """Return the loop program of a computation, with loops of their own for strides that are 1 where that helps.

    Args:
        arrangement: its schedules are those for extents that are equal.
        made: returns the loop program of one version.
    """
    if not any(map(_steps_by_strides, computation.stages)):
        return made(computation, arrangement)
    product = Index.of(1)
    for stride in strides_of(computation):
        product = product * stride
    equal = made(of_equal_extents(computation), arrangement)
    broadcast = made(computation, replace(arrangement, schedules=()))
    is_equal, is_broadcast = Within(product - 1, Index.of(1)), Within(product, Index.of(1))
    return replace(broadcast, body=(If((is_equal,), equal.body), If((is_broadcast,), broadcast.body)))


def _steps_by_strides(stage: Stage) -> bool:
    """Whether the innermost loop of a stage may read elements whose distance is a stride."""
    inner = {*stage.axes[-1:], *(stage.fold.axes if stage.fold is not None else ())}
    reads = (element for element in stage.elements if isinstance(element, Read))
    return any(_steps(index, inner) for read in reads for index in read.at)


def _steps(index: Index, axes: set[Var]) -> bool:
    products = (atoms for atoms, _ in index.terms if any(isinstance(atom, Stride) for atom in atoms))
    return any(not axes.isdisjoint(atoms) for atoms in products)
