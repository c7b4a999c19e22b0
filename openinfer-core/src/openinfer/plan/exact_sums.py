"""Sums of products of small integers in f32, where what constants hold shows that it rounds nothing."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from openinfer.affine import Index
from openinfer.compute import Read
from openinfer.compute.exact_sums import LARGEST, as_reals, in_floats, small_products
from openinfer.dtypes import F32
from openinfer.ir.types import TensorType
from openinfer.plan.steps import ValueRef
from openinfer.plan.values import PackedWeight, WeightMemory
from openinfer.plan.words import elements_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import numpy.typing as npt

    from openinfer.compute import Stage
    from openinfer.compute.exact_sums import SmallProducts
    from openinfer.plan.steps import ComputeStep
    from openinfer.plan.values import PlanValue


FEW_NBYTES = 16384
"""Up to so many bytes, as f32, weights are converted when the plan is made: of many it is worth more to be small."""


def with_exact_sums(step: ComputeStep, values: list[PlanValue], weights: list[PackedWeight]) -> ComputeStep:
    """Return a step that computes sums of products of small integers in f32 where all partial totals are exact.

    Values and weights grow by those of few elements, which become f32.
    """
    for index, stage in enumerate(step.computation.stages):
        products = small_products(stage)
        if products is None or _most(step, stage, products, values, weights) > LARGEST:
            continue
        made = in_floats(stage)
        stages = list(step.computation.stages)
        stages[index] = made
        step = replace(step, computation=replace(step.computation, stages=tuple(stages)))
        for number in products.reads:
            if number is not None:
                step = _with_reals(step, index, number, values, weights)
    return step


def _with_reals(
    step: ComputeStep, index: int, number: int, values: list[PlanValue], weights: list[PackedWeight]
) -> ComputeStep:
    """Return a step whose element is read as f32, if it is one of a small constant that nothing else reads."""
    computation, stage = step.computation, step.computation.stages[index]
    read = stage.elements[number]
    if not isinstance(read, Read) or read.fill is not None:
        return step
    codes = _codes(step, read, values, weights)
    readers = [e.tensor for s in computation.stages for e in s.elements if isinstance(e, Read)]
    if codes is None or codes.size * 4 > FEW_NBYTES or readers.count(read.tensor) != 1:
        return step
    names = [tensor.name for tensor in computation.inputs]
    position = names.index(read.tensor)
    operand = step.inputs[position]
    if not isinstance(operand, ValueRef):
        return step
    value = values[operand.value]
    type_, memory = TensorType(F32, codes.shape), WeightMemory(len(weights))
    source = weights[value.memory.number].source if isinstance(value.memory, WeightMemory) else value.name
    data = np.ascontiguousarray(codes).astype("<f4").reshape(-1).view(np.uint8).data.toreadonly()
    weights.append(PackedWeight(number=memory.number, source=source, type=type_, data=data))
    values.append(replace(value, number=len(values), type=type_, memory=memory, layout=None))
    inputs, tensors, stages = list(step.inputs), list(computation.inputs), list(computation.stages)
    inputs[position] = ValueRef(len(values) - 1)
    tensors[position] = replace(tensors[position], dtype=F32)
    stages[index] = as_reals(stage, number)
    made = replace(computation, inputs=tuple(tensors), stages=tuple(stages))
    return replace(step, computation=made, inputs=tuple(inputs))


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
