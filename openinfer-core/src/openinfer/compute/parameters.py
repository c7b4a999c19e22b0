"""The sizes that a computation depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.compute.stage import places_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openinfer.affine import Var
    from openinfer.compute.stage import Computation, Stage


def parameters_of(computation: Computation) -> tuple[Var, ...]:
    """Return the variables that no stage binds, in the order of their first use."""
    tensors = (*computation.inputs, *computation.outputs, *computation.temporaries)
    variables = dict.fromkeys(var for tensor in tensors for extent in tensor.shape for var in _sorted(extent))
    for stage in computation.stages:
        variables |= dict.fromkeys(free_variables(stage))
    return tuple(variables)


def free_variables(stage: Stage) -> tuple[Var, ...]:
    """Return the variables of a stage that it does not bind."""
    return tuple(dict.fromkeys(_free(stage)))


def _free(stage: Stage) -> Iterator[Var]:
    bound = (*stage.all_axes, *(lookup.var for lookup in stage.lookups))
    ends = (var.extent for var in bound)
    used = (index for element in stage.elements for index in places_of(element))
    for index in (*ends, *stage.at, *used):
        if isinstance(index, Index):
            yield from (var for var in _sorted(index) if var not in bound)


def _sorted(index: Index) -> list[Var]:
    return sorted(index.variables(), key=lambda var: var.name)
