"""Products with the zeros around an image: which may be left out, and where that saves a copy with a border."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from openinfer.compute import Read
from openinfer.layout import row_major
from openinfer.plan.layouts import tensor_values
from openinfer.plan.values import WeightMemory
from openinfer.plan.weights import is_finite
from openinfer.schedule import choose, estimate, padded_factor
from openinfer.schedule.borders import windows
from openinfer.schedule.candidates import tensor_of
from openinfer.schedule.cost import moving

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.arch import TargetInfo
    from openinfer.compute import Stage
    from openinfer.layout import Layout
    from openinfer.plan.steps import ComputeStep
    from openinfer.plan.values import PackedWeight, PlanValue


LEAST_SHARE = 0.99
"""A copy stays where less than a hundredth of the time is saved."""


def left_out(
    stage: Stage, step: ComputeStep, values: Sequence[PlanValue], weights: Sequence[PackedWeight]
) -> int | None:
    """Return the element of a stage past whose border terms may be left out: all that it is multiplied by is finite.

    The element is not a constant: those are packed, and have no border.
    """
    padded = padded_factor(stage)
    if padded is None:
        return None
    number, factor = padded
    constants = {
        name: values[value].memory
        for name, value in tensor_values(step).items()
        if isinstance(values[value].memory, WeightMemory)
    }
    if tensor_of(stage, number) in constants:
        return None
    memory = constants.get(factor)
    return number if isinstance(memory, WeightMemory) and is_finite(weights[memory.number]) else None


def needs_no_copy(
    step: ComputeStep,
    tensor: str,
    bordered: Layout,
    layouts: Mapping[int, Layout],
    values: Sequence[PlanValue],
    weights: Sequence[PackedWeight],
    target: TargetInfo,
) -> bool:
    """Return whether a step leaves out what lies past the border of an image in less time than it reads a copy in.

    Lanes must not lie along the image: those at the border would read what lies past it.

    Args:
        bordered: the layout of the copy.
        layouts: of values, those in row-major order left out.
    """
    if len(step.computation.stages) != 1:
        return False
    (stage,) = step.computation.stages
    skip = left_out(stage, step, values, weights)
    element = None if skip is None else stage.elements[skip]
    if not isinstance(element, Read) or element.tensor != tensor:
        return False
    others = {
        name: layouts.get(value) or row_major(step.computation.tensor(name).shape)
        for name, value in tensor_values(step).items()
        if not isinstance(values[value].memory, WeightMemory)
    }
    lanes = choose(stage, others, target, skip=skip).lanes
    if lanes is None or any(window.axis == lanes.axis for window in windows(stage, skip or 0, others[tensor])):
        return False
    without = estimate(stage, others, target, skip=skip)
    after_copy = estimate(stage, {**others, tensor: bordered}, target, skip=skip)
    if without is None or after_copy is None:
        return False
    itemsize = max(element.dtype.bits // 8, 1)
    return without < LEAST_SHARE * (after_copy + _copying(others[tensor], bordered, itemsize, target))


def _copying(image: Layout, bordered: Layout, itemsize: int, target: TargetInfo) -> float:
    """Return how many cycles a copy takes."""
    # Estimates are of one place along what is known at run time only.
    sizes = [prod(d.extent.constant for d in layout.digits if d.extent.constant) for layout in (image, bordered)]
    moved = sum(moving(size * itemsize, size * itemsize, target) for size in sizes)
    return max(sizes[0] / target.lanes(itemsize), moved)
