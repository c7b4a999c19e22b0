"""Windows over images of bytes in columns, on cores without vectors: a few places at a time, copied with their border.

The columns (`openinfer.compute.byte_columns`) are a buffer that the next places use again. The loop over them has one
body, where windows over the image itself have one for each border, and its loads of bytes and weights go up by one.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from openinfer.affine import Index, extent_of
from openinfer.compute import Read, Tensor
from openinfer.compute.byte_columns import byte_columns_of, in_byte_columns
from openinfer.compute.columns import without_single_places
from openinfer.dtypes import I32
from openinfer.plan.columns import in_two_stages, is_alone, tile_of, value_of_columns, with_weights
from openinfer.plan.depthwise_lanes import copied_in_lanes, is_contiguous, sums_in_lanes
from openinfer.plan.dot_products import layouts_of_step
from openinfer.plan.rewriting import with_computations
from openinfer.plan.step_edits import free_name, operands_by_tensor
from openinfer.plan.steps import Arrangement, ComputeStep
from openinfer.schedule import Loop
from openinfer.schedule.borders import windows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    import numpy.typing as npt

    from openinfer.arch import TargetInfo
    from openinfer.compute import Stage
    from openinfer.compute.byte_columns import ByteColumns
    from openinfer.layout import Layout
    from openinfer.plan.plan_data import PlanData
    from openinfer.plan.steps import Procedure
    from openinfer.schedule import Schedule

    Array = npt.NDArray[Any]

PLACES = 4
"""Most places whose windows are copied at a time for all channels."""

LEAST_CHANNELS = 4
"""Fewest channels that are worth the columns: a byte of them costs two instructions."""


def with_byte_columns(procedures: Sequence[Procedure], data: PlanData, target: TargetInfo) -> tuple[Procedure, ...]:
    """Return the program whose windows over bytes read columns; the data of its plan grows by these.

    The layouts of values are known.
    """
    if not target.is_scalar:
        return tuple(procedures)

    return with_computations(procedures, lambda step: (_copied(step, data, target) or step,))


def _copied(step: ComputeStep, data: PlanData, target: TargetInfo) -> ComputeStep | None:
    """Return a step whose image is copied to columns of bytes; None: it has no windows, or no need of it."""
    computation = step.computation
    if not is_alone(step):
        return None
    stage = without_single_places(computation.stages[0])
    parts = byte_columns_of(stage)
    if parts is None or not _is_worth_it(stage, parts, layouts_of_step(step, data.values)):
        return None
    made = in_byte_columns(stage, parts, free_name(computation, "columns"))
    weight = stage.elements[parts.weight]
    if made is None or not isinstance(weight, Read) or data.arrays(operands_by_tensor(step)[weight.tensor]) is None:
        return None
    weights = Tensor(weight.tensor, weight.dtype, tuple(map(Index.of, made.shape)))
    step = with_weights(step, weights, partial(_moved, made.order, made.shape), data)
    schedules: tuple[Schedule, ...] = ()
    if target.mve and parts.is_depthwise and is_contiguous(stage, parts, layouts_of_step(step, data.values)):
        schedules = (copied_in_lanes(made.copy, made.copy.axes[-1]), sums_in_lanes(made.products, parts.channels))
    # The totals of a tile of one channel are what registers have room for, with their products.
    most = max(1, target.for_totals(I32).registers // 2) if parts.is_depthwise else PLACES
    last = parts.places[-1]
    loops = (*(Loop(axis) for axis in parts.places[:-1]), Loop(last, _tile(extent_of(last), most)))
    arrangement = Arrangement(fusion=loops, schedules=schedules)
    value = value_of_columns(made.columns, step, data)
    return in_two_stages(step, made.columns, value, (made.copy, made.products), arrangement)


def _is_worth_it(stage: Stage, parts: ByteColumns, layouts: Mapping[str, Layout]) -> bool:
    """Whether there are channels enough to share columns, or borders, which would have bodies of their own."""
    image = stage.elements[parts.image]
    if not isinstance(image, Read):
        raise TypeError("the image of a sum is read")
    if not parts.is_depthwise:
        return extent_of(parts.channels) >= LEAST_CHANNELS
    slid = windows(stage, parts.image, layouts[image.tensor])
    return any(sum(map(bool, window.parts)) > 1 for window in slid)


def _tile(extent: int, most: int) -> int:
    """Return how many places are copied at a time: such that all are done in whole tiles, if these are not small."""
    whole = max(tile for tile in range(1, most + 1) if extent % tile == 0)
    return whole if 2 * whole > most else tile_of(extent, most)


def _moved(order: Sequence[int], shape: Sequence[int], array: Array) -> Array:
    """Return weights with their dimensions in another order; those that are not in it have one place."""
    rest = [dim for dim in range(array.ndim) if dim not in order]
    return array.transpose(*order, *rest).reshape(shape)
