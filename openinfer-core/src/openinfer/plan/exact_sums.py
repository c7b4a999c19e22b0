"""Sums of products of small integers in f32, where what constants hold shows that it rounds nothing."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from openinfer.affine import Index
from openinfer.compute import Read
from openinfer.compute.exact_sums import LARGEST, in_floats, small_products
from openinfer.plan.steps import ValueRef
from openinfer.plan.values import WeightMemory
from openinfer.plan.words import elements_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import numpy.typing as npt

    from openinfer.compute import Stage
    from openinfer.compute.exact_sums import SmallProducts
    from openinfer.plan.steps import ComputeStep
    from openinfer.plan.values import PackedWeight, PlanValue


def with_exact_sums(step: ComputeStep, values: Sequence[PlanValue], weights: Sequence[PackedWeight]) -> ComputeStep:
    """Return a step that computes sums of products of small integers in f32 where all partial totals are exact."""
    stages = list(step.computation.stages)
    for place, stage in enumerate(stages):
        products = small_products(stage)
        if products is not None and _most(step, stage, products, values, weights) <= LARGEST:
            stages[place] = in_floats(stage)
    if stages == list(step.computation.stages):
        return step
    return replace(step, computation=replace(step.computation, stages=tuple(stages)))


def _most(
    step: ComputeStep,
    stage: Stage,
    products: SmallProducts,
    values: Sequence[PlanValue],
    weights: Sequence[PackedWeight],
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
        codes = _codes(step, read, values, weights) if isinstance(read, Read) else None
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


def _codes(
    step: ComputeStep, read: Read, values: Sequence[PlanValue], weights: Sequence[PackedWeight]
) -> npt.NDArray[Any] | None:
    """Return the elements of a constant; None: it is none."""
    operands = dict(zip((tensor.name for tensor in step.computation.inputs), step.inputs, strict=True))
    operand = operands.get(read.tensor)
    memory = values[operand.value].memory if isinstance(operand, ValueRef) else None
    if not isinstance(memory, WeightMemory) or weights[memory.number].layout is not None:
        return None
    return elements_of(weights[memory.number])
