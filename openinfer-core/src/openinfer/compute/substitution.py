"""Elements at other places, computations of other sizes, and operands under other names."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var, Within
from openinfer.compute.stage import Read

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.compute.stage import Computation, Element, Stage, Tensor

_NUMBERED = re.compile(r"i\d+")


def moved(element: Element, values: Mapping[Var, Index]) -> Element:
    """Return an element with the variables of its place replaced by indices."""
    if not isinstance(element, Read):
        return replace(element, at=element.at.substituted(values))
    guards = tuple(Within(g.index.substituted(values), g.extent.substituted(values)) for g in element.guards)
    return replace(element, at=tuple(index.substituted(values) for index in element.at), guards=guards)


def resized(computation: Computation, values: Mapping[Var, Index]) -> Computation:
    """Return a computation whose parameters are replaced by indices over others; its own parameters stay unchanged."""
    if not values:
        return computation

    def tensors(row: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return tuple(replace(t, shape=tuple(extent.substituted(values) for extent in t.shape)) for t in row)

    return replace(
        computation,
        inputs=tensors(computation.inputs),
        outputs=tensors(computation.outputs),
        temporaries=tensors(computation.temporaries),
        stages=tuple(_resized(stage, values) for stage in computation.stages),
    )


def numbered(computation: Computation) -> Computation:
    """Return a computation whose axes have the numbers 0, 1 and so on in their names, in the order of its stages.

    Stages that differ in the numbers of their axes alone become equal. Axes with other names keep them.
    """
    bound = dict.fromkeys(var for stage in computation.stages for var in _bound(stage))
    kept = {var.name for var in bound if not _NUMBERED.fullmatch(var.name)}
    taken = kept | {var.name for var in computation.parameters}
    names = (name for number in count() if (name := f"i{number}") not in taken)
    variables = {var: var if var.name in kept else Var(next(names), var.extent) for var in bound}
    if all(old == new for old, new in variables.items()):
        return computation
    return replace(computation, stages=tuple(_over(stage, variables, {}) for stage in computation.stages))


def _bound(stage: Stage) -> tuple[Var, ...]:
    return (*stage.all_axes, *(lookup.var for lookup in stage.lookups))


def _resized(stage: Stage, values: Mapping[Var, Index]) -> Stage:
    return _over(stage, {var: _of_extent(var, values) for var in _bound(stage)}, values)


def _over(stage: Stage, variables: Mapping[Var, Var], values: Mapping[Var, Index]) -> Stage:
    """Return a stage with other variables for its axes and lookups, and indices for its parameters."""
    inside = {**values, **{var: Index.of(other) for var, other in variables.items() if var != other}}
    fold = stage.fold
    return replace(
        stage,
        axes=tuple(variables[axis] for axis in stage.axes),
        elements=tuple(moved(element, inside) for element in stage.elements),
        at=tuple(index.substituted(inside) for index in stage.at),
        fold=fold and replace(fold, axes=tuple(variables[axis] for axis in fold.axes)),
        lookups=tuple(replace(lookup, var=variables[lookup.var]) for lookup in stage.lookups),
    )


def _of_extent(var: Var, values: Mapping[Var, Index]) -> Var:
    if not isinstance(var.extent, Index):
        return var
    extent = var.extent.substituted(values)
    return Var(var.name, extent if extent.constant is None else extent.constant)


def renamed(computation: Computation, names: Mapping[str, str]) -> Computation:
    """Return a computation with other names for tensors; inputs of one new name become one."""
    if all(old == new for old, new in names.items()):
        return computation
    return replace(
        computation,
        inputs=tuple(dict.fromkeys(_tensor(tensor, names) for tensor in computation.inputs)),
        outputs=tuple(_tensor(tensor, names) for tensor in computation.outputs),
        temporaries=tuple(_tensor(tensor, names) for tensor in computation.temporaries),
        stages=tuple(_stage(stage, names) for stage in computation.stages),
    )


def _tensor(tensor: Tensor, names: Mapping[str, str]) -> Tensor:
    return replace(tensor, name=names.get(tensor.name, tensor.name))


def _stage(stage: Stage, names: Mapping[str, str]) -> Stage:
    elements = tuple(
        replace(element, tensor=names.get(element.tensor, element.tensor)) if isinstance(element, Read) else element
        for element in stage.elements
    )
    return replace(stage, tensor=names.get(stage.tensor, stage.tensor), elements=elements)
