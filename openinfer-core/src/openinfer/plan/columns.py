"""Products of bytes in columns, on machines that multiply pairs of 16 bits: a few places at a time, for all channels.

The columns of these places (`openinfer.compute.columns`) are a buffer that the next places use again. A tile has two
channels and as many places as the registers hold totals for; its loads of a column lie next to one another.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from openinfer.affine import Index, Var, extent_of
from openinfer.compute import Read, Tensor
from openinfer.compute.columns import HALVES, columns_of, in_columns, without_single_places
from openinfer.compute.dot_products import BYTES
from openinfer.dtypes import I8, I32
from openinfer.ir.types import TensorType
from openinfer.layout import row_major
from openinfer.loops import Bind
from openinfer.plan.dot_products import in_bytes, layouts_of_step, with_dot_products
from openinfer.plan.rewriting import with_computations
from openinfer.plan.step_edits import free_name, operands_by_tensor, with_input
from openinfer.plan.steps import Arrangement, ComputeStep
from openinfer.schedule import Loop, Schedule
from openinfer.schedule.merging import merged_places

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    import numpy.typing as npt

    from openinfer.arch import TargetInfo
    from openinfer.compute import Stage
    from openinfer.compute.columns import InColumns
    from openinfer.plan.plan_data import PlanData
    from openinfer.plan.steps import Procedure

    Array = npt.NDArray[Any]

OPERANDS = 4
"""Registers of a tile in addition to its totals: the weights of two channels, and two pairs of columns."""

LEAST_CHANNELS = 4
"""Fewest channels that are worth the columns: one costs about two instructions for each pair of bytes."""

WRITTEN_OUT = 8
"""Most pairs of a column whose products are written out in one iteration.

With 8 rather than 4, `keyword.tflite` of examples/cortex-m4 takes 1.7 % fewer instructions on a Cortex-M4 for 7 % more
code. `person.tflite` takes 0.2 % more for 19 % more code.
"""


def with_columns(procedures: Sequence[Procedure], data: PlanData, target: TargetInfo) -> tuple[Procedure, ...]:
    """Return the program whose products of bytes are computed in columns; the data of its plan grows by these.

    The layouts of values are known.
    """
    places = (target.for_totals(I32).registers - OPERANDS) // HALVES
    if not target.dsp or places < HALVES:
        return tuple(procedures)

    return with_computations(procedures, lambda step: (_rewritten(step, places, data) or step,))


def is_alone(step: ComputeStep) -> bool:
    """Whether a step has one stage of known extents, which it does not share loops with others for."""
    computation = step.computation
    arrangement = step.arrangement
    if arrangement.fusion or arrangement.schedules or step.temporaries or step.arguments:
        return False
    if len(computation.stages) != 1:
        return False
    return all(isinstance(axis.extent, int) for axis in computation.stages[0].all_axes)


def _rewritten(step: ComputeStep, most: int, data: PlanData) -> ComputeStep | None:
    """Return a step in columns of at most so many places at a time; None: its products are not of this form."""
    if not is_alone(step):
        return None
    worded = with_dot_products(step, data, signed=True)
    stage = without_single_places(worded.computation.stages[0])
    stage = merged_places(stage, layouts_of_step(worded, data.values))
    parts = columns_of(stage)
    if parts is None or extent_of(parts.channels) < LEAST_CHANNELS:
        return None
    tile = tile_of(extent_of(parts.places[-1]), most)
    if tile < HALVES:
        return None
    computation = worded.computation
    made = in_columns(stage, parts, free_name(computation, "columns"))
    weight = stage.elements[parts.weight]
    if not isinstance(weight, Read):
        raise TypeError("weights are read")
    shape = [extent_of(axis) for axis in (made.channels[0], *made.folded)]
    worded = with_weights(
        worded, Tensor(weight.tensor, I32, tuple(map(Index.of, shape))), partial(pair_words, made.order, shape), data
    )
    loops = (*(Loop(axis) for axis in parts.places[:-1]), Loop(parts.places[-1], tile))
    schedules = (_widening(made, parts.places, tile), _products(made, parts.places, tile))
    arrangement = Arrangement(fusion=loops, schedules=schedules)
    return in_two_stages(worded, made.columns, _value(made, step, data), (made.widening, made.products), arrangement)


def pair_words(order: Sequence[int], shape: Sequence[int], words: Array) -> Array:
    """Return words of weights for two channels each, as the second stage of `in_columns` reads them.

    Args:
        order: dimensions of ``words``, that of the channels first; others have one place.
        shape: of the result, whose last dimension counts the pairs of a word too.
        words: four bytes of one channel each.
    """
    rest = [dim for dim in range(words.ndim) if dim not in order]
    moved = words.view(np.uint32).transpose(*order, *rest).reshape([words.shape[dim] for dim in order])
    first, second = moved[::HALVES], moved[1::HALVES]
    made = np.zeros((*first.shape, HALVES), np.uint32)
    for half in range(HALVES):
        for byte_of_word, (of, byte) in enumerate(
            ((first, half), (second, half), (first, half + 2), (second, half + 2))
        ):
            made[..., half] |= (of >> np.uint32(8 * byte) & np.uint32(255)) << np.uint32(8 * byte_of_word)
    return made.view(np.int32).reshape(shape)


def tile_of(extent: int, most: int) -> int:
    """Return how many places a tile has, so that the loads of weights for all tiles are fewest."""
    return min(range(1, most + 1), key=lambda tile: (-(-extent // tile), tile))


def _widening(made: InColumns, places: Sequence[Var], tile: int) -> Schedule:
    """Return the schedule that widens the words of a tile, each word once."""
    *dims, halves = made.dims
    along = next(dim for dim in dims if places[-1] in dim.index.variables())
    reach = along.index.substituted({places[-1]: Index.of(Var(places[-1].name, tile))}).interval.high or 0
    serial = (Loop(dim.axis, reach + 1 if dim is along else 1) for dim in dims)
    return Schedule((*serial, Loop(along.axis, 1, Bind.UNROLL), Loop(halves.axis, 1, Bind.UNROLL)))


def _products(made: InColumns, places: Sequence[Var], tile: int) -> Schedule:
    """Return the schedule that multiplies the columns of a tile with the weights of two channels after two."""
    (both, channel), (*outer, row) = made.channels, made.folded
    step = max(step for step in range(1, WRITTEN_OUT + 1) if extent_of(row) % step == 0)
    own = (*(Loop(axis) for axis in places[:-1]), Loop(places[-1], tile), Loop(both))
    copies = (Loop(axis, 1, Bind.UNROLL) for axis in (row, places[-1], channel))
    return Schedule((*own, *map(Loop, outer), Loop(row, step), *copies))


def _value(made: InColumns, step: ComputeStep, data: PlanData) -> int:
    """Return the number of the value that the columns are: bytes, which share memory with images.

    Generated C accesses them as words: bytes are characters there, which may share memory with every type.
    """
    extents = tuple(extent_of(dim.axis) for dim in made.dims)
    (result,) = step.outputs
    type_ = TensorType(I8, (*extents[:-1], extents[-1] * BYTES))
    return data.temporary(f"{data.values[result].name}.columns", type_, in_bytes(row_major(made.columns.shape)))


def value_of_columns(columns: Tensor, step: ComputeStep, data: PlanData) -> int:
    """Return the number of a new value that columns of their own type are."""
    (result,) = step.outputs
    type_ = TensorType(columns.dtype, tuple(extent.evaluate({}) for extent in columns.shape))
    return data.temporary(f"{data.values[result].name}.columns", type_, row_major(columns.shape))


def with_weights(step: ComputeStep, weights: Tensor, function: Callable[..., Array], data: PlanData) -> ComputeStep:
    """Return a step that reads a function of the elements of a constant in its place."""
    operand = data.constant([operands_by_tensor(step)[weights.name]], function, weights.dtype)
    return with_input(step, weights, operand)


def in_two_stages(
    step: ComputeStep, columns: Tensor, value: int, stages: tuple[Stage, Stage], arrangement: Arrangement
) -> ComputeStep:
    """Return a step whose first stage writes columns, a value of the plan, which its second stage reads."""
    computation = replace(step.computation, temporaries=(columns,), stages=stages)
    return replace(step, computation=computation, temporaries=(value,), arrangement=arrangement)
