"""Sums of products of small integers in f32, where what constants hold shows that it rounds nothing."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from openinfer.affine import Index
from openinfer.compute import Read
from openinfer.compute.exact_sums import LARGEST, as_reals, in_floats, small_products
from openinfer.dtypes import F32
from openinfer.plan.step_edits import operands_by_tensor, with_input, with_stage
from openinfer.plan.steps import ValueRef

if TYPE_CHECKING:
    from typing import Any

    import numpy.typing as npt

    from openinfer.compute import Stage
    from openinfer.compute.exact_sums import SmallProducts
    from openinfer.plan.plan_data import PlanData
    from openinfer.plan.steps import ComputeStep


FEW_NBYTES = 16384
"""Up to so many bytes, as f32, weights are converted when the plan is made: of many it is worth more to be small."""


def with_exact_sums(step: ComputeStep, data: PlanData) -> ComputeStep:
    """Return a step that computes sums of products of small integers in f32 where all partial totals are exact.

    The data of its plan grows by constants of few elements, which become f32.
    """
    for index, stage in enumerate(step.computation.stages):
        products = small_products(stage)
        if products is None or _most(step, stage, products, data) > LARGEST:
            continue
        step = with_stage(step, index, in_floats(stage))
        for number in products.reads:
            if number is not None:
                step = _with_reals(step, index, number, data)
    return step


def _with_reals(step: ComputeStep, index: int, number: int, data: PlanData) -> ComputeStep:
    """Return a step whose element is read as f32, if it is one of a small constant that nothing else reads."""
    stage = step.computation.stages[index]
    read = stage.elements[number]
    if not isinstance(read, Read) or read.fill is not None:
        return step
    codes = _codes(step, read, data)
    readers = [e.tensor for s in step.computation.stages for e in s.elements if isinstance(e, Read)]
    if codes is None or codes.size * 4 > FEW_NBYTES or readers.count(read.tensor) != 1:
        return step
    operand = data.constant([operands_by_tensor(step)[read.tensor]], partial(np.asarray, dtype=np.float32), F32)
    tensor = replace(step.computation.tensor(read.tensor), dtype=F32)
    return with_stage(with_input(step, tensor, operand), index, as_reals(stage, number))


def _most(
    step: ComputeStep,
    stage: Stage,
    products: SmallProducts,
    data: PlanData,
) -> float:
    """Return what no sum of magnitudes of terms exceeds."""
    if stage.fold is None:
        raise TypeError("a sum of products is a fold")
    if not all(isinstance(axis.extent, int) for axis in stage.fold.axes):
        return float("inf")
    extents = {axis: axis.extent for axis in stage.fold.axes if isinstance(axis.extent, int)}
    bounds = [float(prod((*extents.values(), *products.limits)))]
    if bounds[0] <= LARGEST:
        return bounds[0]
    for number, other in zip(products.reads, reversed(products.limits), strict=True):
        read = None if number is None else stage.elements[number]
        codes = _codes(step, read, data) if isinstance(read, Read) else None
        if not isinstance(read, Read) or codes is None:
            continue
        walked = {index: dim for dim, index in enumerate(read.at) if index.variables() & extents.keys()}
        own = [axis for axis in extents if Index.of(axis) in walked]
        if len(own) < sum(bool(index.variables() & extents.keys()) for index in read.at):
            continue
        rest = prod(extent for axis, extent in extents.items() if axis not in own)
        # The magnitude of the lowest number of a type is right without a sign.
        magnitudes = np.abs(codes).view(f"u{codes.itemsize}")
        sums = magnitudes.sum(axis=tuple(walked.values()), dtype=np.int64)
        bounds.append(float(sums.max(initial=0)) * other * rest)
    return min(bounds)


def _codes(step: ComputeStep, read: Read, data: PlanData) -> npt.NDArray[Any] | None:
    """Return the elements of a constant; None: it is none."""
    operand = operands_by_tensor(step)[read.tensor]
    arrays = data.arrays(operand) if isinstance(operand, ValueRef) else None
    return None if arrays is None else arrays[0]
