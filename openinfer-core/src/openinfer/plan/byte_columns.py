"""Windows over images of bytes in columns, on cores without vectors: a few places at a time, copied with their border.

The columns (`openinfer.compute.byte_columns`) are a buffer that the next places use again. The loop over them has one
body, where windows over the image itself have one for each border, and its loads of bytes and weights go up by one.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from openinfer.affine import Index, extent_of
from openinfer.compute import Read, Tensor
from openinfer.compute.byte_columns import byte_columns_of, in_byte_columns
from openinfer.compute.columns import without_single_places
from openinfer.dtypes import I32
from openinfer.ir.types import TensorType
from openinfer.layout import row_major
from openinfer.plan.columns import free_name, is_alone, layouts_of_step, tile_of
from openinfer.plan.depthwise_lanes import copied_in_lanes, is_contiguous, sums_in_lanes
from openinfer.plan.rewriting import with_steps
from openinfer.plan.steps import Arrangement, ComputeStep
from openinfer.plan.values import NoMemory, PlanValue, Role
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
    from openinfer.plan.steps import Procedure, Step
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

    def changed(step: Step) -> Step:
        return (_copied(step, data, target) or step) if isinstance(step, ComputeStep) else step

    return with_steps(procedures, lambda step: (changed(step),))


def _copied(step: ComputeStep, data: PlanData, target: TargetInfo) -> ComputeStep | None:
    """Return a step whose image is copied to columns of bytes; None: it has no windows, or no need of it."""
    computation = step.computation
    if not is_alone(step):
        return None
    stage = without_single_places(computation.stages[0])
    parts = byte_columns_of(stage)
    if parts is None or not _is_worth_it(stage, parts, layouts_of_step(step, data)):
        return None
    made = in_byte_columns(stage, parts, free_name(computation))
    weight, inputs, tensors = stage.elements[parts.weight], list(step.inputs), list(computation.inputs)
    if made is None or not isinstance(weight, Read):
        return None
    position = [tensor.name for tensor in tensors].index(weight.tensor)
    if data.arrays(inputs[position]) is None:
        return None
    inputs[position] = data.constant([inputs[position]], partial(_moved, made.order, made.shape), weight.dtype)
    tensors[position] = Tensor(weight.tensor, weight.dtype, tuple(map(Index.of, made.shape)))
    schedules: tuple[Schedule, ...] = ()
    if target.mve and parts.is_depthwise and is_contiguous(stage, parts, layouts_of_step(step, data)):
        schedules = (copied_in_lanes(made.copy, made.copy.axes[-1]), sums_in_lanes(made.products, parts.channels))
    # The totals of a tile of one channel are what registers have room for, with their products.
    most = max(1, target.for_totals(I32).registers // 2) if parts.is_depthwise else PLACES
    last = parts.places[-1]
    loops = (*(Loop(axis) for axis in parts.places[:-1]), Loop(last, _tile(extent_of(last), most)))
    computation = replace(
        computation, inputs=tuple(tensors), temporaries=(made.columns,), stages=(made.copy, made.products)
    )
    return replace(
        step,
        computation=computation,
        inputs=tuple(inputs),
        temporaries=(_value(made.columns, step, data),),
        arrangement=Arrangement(fusion=loops, schedules=schedules),
    )


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


def _value(columns: Tensor, step: ComputeStep, data: PlanData) -> int:
    """Return the number of the value that the columns are."""
    (result,) = step.outputs
    data.values.append(
        PlanValue(
            number=len(data.values),
            name=f"{data.values[result].name}.columns",
            type=TensorType(columns.dtype, tuple(extent.constant or 0 for extent in columns.shape)),
            role=Role.TEMPORARY,
            memory=NoMemory(),
            layout=row_major(columns.shape),
        )
    )
    return len(data.values) - 1
