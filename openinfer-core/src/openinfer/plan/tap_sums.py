"""Sums of products of small integers for each channel, as in depthwise convolutions: all terms are written out.

Lanes lie along the channels. The weights are rearranged, so that those of neighbouring channels are neighbours.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from openinfer.affine import Index, extent_of
from openinfer.compute import Read
from openinfer.compute.modular_sums import with_written_out_terms, without_sign
from openinfer.plan.step_edits import operands_by_tensor, with_input, with_stage
from openinfer.plan.steps import ValueRef
from openinfer.schedule import stays_inside

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.affine import Var
    from openinfer.compute import Stage
    from openinfer.layout import Layout
    from openinfer.plan.plan_data import PlanData
    from openinfer.plan.steps import ComputeStep

MOST_TERMS = 16
"""Most terms of a sum that are written out."""

LEAST_LANES = 8
"""Fewest channels that are worth it."""


def with_written_out_sums(step: ComputeStep, layouts: Mapping[str, Layout], data: PlanData) -> ComputeStep:
    """Return a step whose sums of few products of small integers are written out, with lanes along the channels.

    Args:
        layouts: where tensors lie, by name.
        data: of the plan; it grows by the weights in another order.
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
        made = _along(changed, stage, number, lane, data)
        if made is None:
            return step
        changed, stage = made
    return with_stage(changed, 0, with_written_out_terms(stage))


def _shares_lane(stage: Stage, lane: Var) -> bool:
    """Return whether everything that the terms walk differs from lane to lane: nothing is one number for all."""
    folded = () if stage.fold is None else stage.fold.axes
    reads = [e for e in stage.elements if isinstance(e, Read)]
    walked = [read for read in reads if any(index.variables() & set(folded) for index in read.at)]
    return all(any(lane in index.variables() for index in read.at) for read in walked)


def _along(step: ComputeStep, stage: Stage, number: int, lane: Var, data: PlanData) -> tuple[ComputeStep, Stage] | None:
    """Return a step and its stage with a constant whose elements of neighbouring lanes are neighbours.

    None: it is not a constant, or others read it.
    """
    read = stage.elements[number]
    if not isinstance(read, Read) or read.fill is not None or read.dtype.is_packed:
        return None
    dims = [dim for dim, index in enumerate(read.at) if lane in index.variables()]
    readers = [e for e in stage.elements if isinstance(e, Read) and e.tensor == read.tensor]
    operand = operands_by_tensor(step)[read.tensor]
    is_moved = len(dims) == 1 and read.at[dims[0]] == Index.of(lane) and len(readers) == 1
    if not is_moved or not isinstance(operand, ValueRef) or data.arrays(operand) is None:
        return None
    order = [*(dim for dim in range(len(read.at)) if dim != dims[0]), dims[0]]
    operand = data.constant([operand], partial(np.transpose, axes=order), read.dtype)
    tensor, elements = step.computation.tensor(read.tensor), list(stage.elements)
    tensor = replace(tensor, shape=tuple(tensor.shape[dim] for dim in order))
    elements[number] = replace(read, at=tuple(read.at[dim] for dim in order))
    return with_input(step, tensor, operand), replace(stage, elements=tuple(elements))
