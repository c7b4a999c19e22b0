"""Products of bytes in rows, on machines that add a whole vector of them to a total by one instruction.

A tile has four channels and two places: each vector of weights is multiplied with two rows, each vector of a row with
four. Four totals of a place become codes at once.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from openinfer.affine import Index, extent_of
from openinfer.compute import Read, Tensor
from openinfer.compute.byte_columns import sum_of_bytes
from openinfer.compute.columns import without_single_places
from openinfer.compute.joined_products import VECTOR, copied_rows, rows_of_image
from openinfer.loops import Bind
from openinfer.plan.columns import in_two_stages, is_alone, value_of_columns, with_weights
from openinfer.plan.depthwise_lanes import has_border, is_contiguous, sums_in_lanes
from openinfer.plan.dot_products import layouts_of_step
from openinfer.plan.rewriting import with_computations
from openinfer.plan.step_edits import free_name, operands_by_tensor, with_stage
from openinfer.plan.steps import Arrangement, ComputeStep
from openinfer.schedule import Loop, Schedule
from openinfer.schedule.merging import merged_places

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    import numpy.typing as npt

    from openinfer.affine import Var
    from openinfer.arch import TargetInfo
    from openinfer.compute import Stage
    from openinfer.compute.byte_columns import ByteColumns
    from openinfer.compute.joined_products import InRows
    from openinfer.plan.plan_data import PlanData
    from openinfer.plan.steps import Procedure

    Array = npt.NDArray[Any]

CHANNELS, PLACES = 4, 2
"""The channels and places of a tile: eight totals are what core registers hold next to addresses."""

WRITTEN_OUT = 4
"""Most vectors of a row whose products are written out in one iteration.

With 1, 2, 4 and 8, `person.tflite` of examples/cortex-m4 takes 3.69, 3.56, 3.46 and 3.38 million instructions on a
Cortex-M55 and 19.6, 20.3, 21.8 and 23.5 kB of code.
"""

LEAST_TERMS = 8
"""Fewest terms of a sum that are worth a vector, the rest of which is zeros.

With 16 rather than 8, `person.tflite` takes 14 % more instructions: its first layers add up 8 channels.
"""


def with_joined_products(procedures: Sequence[Procedure], data: PlanData, target: TargetInfo) -> tuple[Procedure, ...]:
    """Return the program whose products of bytes are added up in vectors; the data of its plan grows by what they read.

    The layouts of values are known.
    """
    if not target.mve:
        return tuple(procedures)

    return with_computations(procedures, lambda step: (_rewritten(step, data) or step,))


def _rewritten(step: ComputeStep, data: PlanData) -> ComputeStep | None:
    """Return a step with products in rows; None: its products are not of this form."""
    if not is_alone(step):
        return None
    layouts = layouts_of_step(step, data.values)
    stage = merged_places(without_single_places(step.computation.stages[0]), layouts)
    parts = sum_of_bytes(stage)
    if parts is None or stage.fold is None:
        return None
    if parts.is_depthwise:
        is_inside = is_contiguous(stage, parts, layouts) and has_border(stage, parts, layouts)
        return _with_schedule(step, stage, sums_in_lanes(stage, parts.channels)) if is_inside else None
    image, weight = stage.elements[parts.image], stage.elements[parts.weight]
    if not isinstance(image, Read) or not isinstance(weight, Read) or extent_of(parts.channels) < CHANNELS:
        return None
    operands, terms = operands_by_tensor(step), prod(map(extent_of, stage.fold.axes))
    if terms < LEAST_TERMS or data.arrays(operands[weight.tensor]) is None or image.tensor == stage.tensor:
        return None
    address = layouts[image.tensor].address(image.at)
    # Rows of a copy are read before results, which may take the place of the image, are stored.
    if parts.places:
        made = copied_rows(stage, parts, address, free_name(step.computation, "columns"))
    else:
        made = rows_of_image(stage, parts, address)
    if made is None:
        return None
    weights = Tensor(weight.tensor, weight.dtype, tuple(map(Index.of, made.shape)))
    step = with_weights(step, weights, partial(padded_rows, made.order, made.shape), data)
    step = _with_schedule(step, made.products, _products(made, parts))
    return step if made.copy is None or made.rows is None else _with_copy(step, made.copy, made.rows, parts, data)


def _with_schedule(step: ComputeStep, stage: Stage, schedule: Schedule) -> ComputeStep:
    return replace(with_stage(step, 0, stage), arrangement=Arrangement(schedules=(schedule,)))


def _with_copy(step: ComputeStep, copy: Stage, rows: Tensor, parts: ByteColumns, data: PlanData) -> ComputeStep:
    """Return a step that copies the rows of a tile before its products."""
    places = parts.places
    loops = tuple(Loop(axis, PLACES if axis == places[-1] else 1) for axis in places)
    schedules = (_copied(copy), *step.arrangement.schedules)
    (products,) = step.computation.stages
    arrangement = Arrangement(fusion=loops, schedules=schedules)
    return in_two_stages(step, rows, value_of_columns(rows, step, data), (copy, products), arrangement)


def padded_rows(order: Sequence[int], shape: Sequence[int], array: Array) -> Array:
    """Return weights with their dimensions in another order, and zeros after the elements of each row."""
    rest = [dim for dim in range(array.ndim) if dim not in order]
    rows = array.transpose(*order, *rest).reshape(*shape[:-1], -1)
    return np.pad(rows, [(0, new - old) for new, old in zip(shape, rows.shape, strict=True)])


def _products(made: InRows, parts: ByteColumns) -> Schedule:
    """Return the schedule of a tile: a vector of each row at a time."""
    fold, places, channels = made.products.fold, parts.places, parts.channels
    if fold is None:
        raise TypeError("products are the terms of a fold")
    *outer, row = fold.axes
    own = (*(Loop(axis, PLACES if axis == places[-1] else 1) for axis in places), Loop(channels, CHANNELS))
    vectors = extent_of(row) // VECTOR
    written = VECTOR * max(count for count in range(1, WRITTEN_OUT + 1) if vectors % count == 0)
    copies = (Loop(row, VECTOR, Bind.UNROLL), *(Loop(axis, 1, Bind.UNROLL) for axis in (*places[-1:], channels)))
    return Schedule((*own, *map(Loop, outer), Loop(row, written), *copies, Loop(row, 1, Bind.LANES, joined=True)))


def _copied(copy: Stage) -> Schedule:
    """Return the schedule of a copy, in vectors where a row has whole ones along its last axis."""
    *outer, last = copy.axes
    if extent_of(last) % VECTOR:
        written = _written_out(copy.axes)
        return Schedule((*map(Loop, copy.axes[:-written]), *(Loop(a, 1, Bind.UNROLL) for a in copy.axes[-written:])))
    return Schedule((*map(Loop, outer), Loop(last, VECTOR), Loop(last, 1, Bind.LANES)))


def _written_out(axes: Sequence[Var]) -> int:
    """Return how many of the last axes are written out: those of a vector."""
    count = 1
    while count < len(axes) and prod(map(extent_of, axes[-count - 1 :])) <= VECTOR:
        count += 1
    return count
