"""Elements at other places, and operands under other names."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.affine import Within
from openinfer.compute.stage import Read

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.affine import Index, Var
    from openinfer.compute.stage import Computation, Element, Stage, Tensor


def moved(element: Element, values: Mapping[Var, Index]) -> Element:
    """Return an element with the variables of its place replaced by indices."""
    if not isinstance(element, Read):
        return replace(element, at=element.at.substituted(values))
    guards = tuple(Within(g.index.substituted(values), g.extent.substituted(values)) for g in element.guards)
    return replace(element, at=tuple(index.substituted(values) for index in element.at), guards=guards)


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
