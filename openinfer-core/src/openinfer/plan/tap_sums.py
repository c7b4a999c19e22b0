"""Sums of products of small integers for each channel, as in depthwise convolutions: all terms are written out.

Lanes lie along the channels. The weights are rearranged, so that those of neighbouring channels are neighbours.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from openinfer.affine import Index, extent_of
from openinfer.compute import Read
from openinfer.compute.modular_sums import with_written_out_terms, without_sign
from openinfer.ir.types import TensorType
from openinfer.plan.steps import ValueRef
from openinfer.plan.values import PackedWeight, WeightMemory
from openinfer.plan.words import elements_of
from openinfer.schedule import stays_inside

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.affine import Var
    from openinfer.compute import Stage
    from openinfer.layout import Layout
    from openinfer.plan.steps import ComputeStep
    from openinfer.plan.values import PlanValue

MOST_TERMS = 16
"""Most terms of a sum that are written out."""

LEAST_LANES = 8
"""Fewest channels that are worth it."""


def with_written_out_sums(
    step: ComputeStep, layouts: Mapping[str, Layout], values: list[PlanValue], weights: list[PackedWeight]
) -> ComputeStep:
    """Return a step whose sums of few products of small integers are written out, with lanes along the channels.

    Args:
        layouts: where tensors lie, by name.
        values, weights: those of the plan; they grow by the weights in another layout.
    """
    if step.arrangement.fusion or len(step.computation.stages) != 1:
        return step
    stage = without_sign(step.computation.stages[0])
    if stage is None or stage.fold is None:
        return step
    if not all(isinstance(axis.extent, int) for axis in stage.all_axes):
        return step
    # Bodies for each border would be long.
    if not all(stays_inside(e, layouts) for e in stage.elements if isinstance(e, Read)):
        return step
    store = layouts[stage.tensor].address(stage.at)
    lane = next((a for a in stage.axes if store.coefficient(a) == 1 and extent_of(a) >= LEAST_LANES), None)
    if lane is None or prod(map(extent_of, stage.fold.axes)) > MOST_TERMS or not _shares_lane(stage, lane):
        return step
    changed = step
    for number, element in enumerate(stage.elements):
        if not isinstance(element, Read) or not any(lane in index.variables() for index in element.at):
            continue
        if layouts[element.tensor].address(element.at).coefficient(lane) == 1:
            continue
        made = _along(changed, stage, number, lane, values, weights)
        if made is None:
            return step
        changed, stage = made
    return replace(changed, computation=replace(changed.computation, stages=(with_written_out_terms(stage),)))


def _shares_lane(stage: Stage, lane: Var) -> bool:
    """Return whether everything that the terms walk differs from lane to lane: nothing is one number for all."""
    folded = () if stage.fold is None else stage.fold.axes
    reads = [e for e in stage.elements if isinstance(e, Read)]
    walked = [read for read in reads if any(index.variables() & set(folded) for index in read.at)]
    return all(any(lane in index.variables() for index in read.at) for read in walked)


def _along(
    step: ComputeStep, stage: Stage, number: int, lane: Var, values: list[PlanValue], weights: list[PackedWeight]
) -> tuple[ComputeStep, Stage] | None:
    """Return a step and its stage with a constant whose elements of neighbouring lanes are neighbours.

    None: it is not a constant, or others read it.
    """
    computation, read = step.computation, stage.elements[number]
    if not isinstance(read, Read) or read.fill is not None:
        return None
    dims = [dim for dim, index in enumerate(read.at) if lane in index.variables()]
    readers = [e for e in stage.elements if isinstance(e, Read) and e.tensor == read.tensor]
    position = next((p for p, tensor in enumerate(computation.inputs) if tensor.name == read.tensor), None)
    operand = None if position is None else step.inputs[position]
    value = values[operand.value] if isinstance(operand, ValueRef) else None
    if position is None or value is None or not isinstance(value.memory, WeightMemory):
        return None
    weight = weights[value.memory.number]
    is_moved = len(dims) == 1 and read.at[dims[0]] == Index.of(lane) and len(readers) == 1
    if not is_moved or weight.layout is not None or weight.type.dtype.is_packed:
        return None
    order = [*(dim for dim in range(len(read.at)) if dim != dims[0]), dims[0]]
    array = np.ascontiguousarray(elements_of(weight).transpose(order))
    type_ = TensorType(weight.type.dtype, array.shape)
    data = array.reshape(-1).view(np.uint8).data.toreadonly()
    memory = WeightMemory(len(weights))
    weights.append(PackedWeight(number=memory.number, source=weight.source, type=type_, data=data))
    values.append(replace(value, number=len(values), type=type_, memory=memory, layout=None))
    inputs, tensors, elements = list(step.inputs), list(computation.inputs), list(stage.elements)
    inputs[position] = ValueRef(len(values) - 1)
    tensors[position] = replace(tensors[position], shape=tuple(map(Index.of, array.shape)))
    elements[number] = replace(read, at=tuple(read.at[dim] for dim in order))
    made = replace(step, computation=replace(computation, inputs=tuple(tensors)), inputs=tuple(inputs))
    return made, replace(stage, elements=tuple(elements))
