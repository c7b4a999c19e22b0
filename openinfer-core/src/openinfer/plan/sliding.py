"""Windows of rows whose result is written over their image, channel by channel, where the arena is fullest.

A ring holds the few rows of some channels that windows still reach when the result of an earlier row takes their
place. So a depthwise convolution needs one image and a ring, where otherwise its result begins whole rows before the
image (`openinfer.plan.overlap`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var, Within, extent_of
from openinfer.compute import Read, Stage, Tensor
from openinfer.dtypes import I8, I32
from openinfer.expr import tree
from openinfer.expr.linear import linearise
from openinfer.layout import Digit, Layout
from openinfer.loops import Bind
from openinfer.plan.accesses import mask, members, reads, writes
from openinfer.plan.depthwise_lanes import TOTALS, block_of, copied_in_lanes, sums_in_lanes
from openinfer.plan.layouts import slides
from openinfer.plan.liveness import Liveness
from openinfer.plan.places import ALIGNMENT
from openinfer.plan.rewriting import with_steps
from openinfer.plan.steps import Arrangement, ComputeStep, ValueRef
from openinfer.plan.values import NoMemory, PlanValue, Role
from openinfer.schedule import Loop, Schedule
from openinfer.schedule.folds import is_tileable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.arch import TargetInfo
    from openinfer.plan.steps import Procedure, Step

LEAST_GAIN = 32
"""A ring has to make the arena smaller by one part in so many: it costs a copy of every row."""

SMALL_PLANE = 16
"""A plane of one channel takes at most one part in so many of an image."""

SMALL_RING = 2
"""A ring of rows of some channels takes at most one part in so many of an image."""

MOVING = 3
"""Registers for an element of a plane, its product and its address."""

_ROWS = 2
"""The dimension of rows in an image: batch, channels, rows, columns."""


def over_their_images(
    procedures: Sequence[Procedure],
    values: Sequence[PlanValue],
    wanted: int,
    least: int,
    target: TargetInfo,
) -> tuple[tuple[Procedure, ...], list[PlanValue]]:
    """Return the program with windows that write over their image, and its values with their rings.

    Args:
        values: those of the plan, with their layouts.
        wanted: values that are read when the program has ended, as bits.
        least: bytes up to which the arena does not grow, or is small (`openinfer.plan.halos.Room`).
    """
    sliding = _Sliding(list(values), procedures, wanted, least, target)
    return with_steps(procedures, lambda step: (sliding.step(step),)), sliding.values


@dataclass(frozen=True, slots=True)
class _Windows:
    """A step that computes each channel of an image from windows of the same channel.

    Attributes:
        operand, result: the images, which have one layout.
        element: number of the read of the operand.
        channels, rows: the axes of the result.
        first: the least row and column that a window begins at.
        count: how many rows and columns windows touch, those past the border among them.
        ahead: elements from the farthest one that a window reads to the place that it writes.
    """

    operand: int
    result: int
    tensor: Tensor
    element: int
    channels: Var
    rows: Var
    first: tuple[int, int]
    count: tuple[int, int]
    ahead: int


class _Sliding:
    def __init__(
        self, values: list[PlanValue], procedures: Sequence[Procedure], wanted: int, least: int, target: TargetInfo
    ) -> None:
        self.values = values
        self._procedures = procedures
        self._wanted = wanted
        self._least = least
        self._target = target
        self._live: Liveness | None = None
        self._free = mask(value.number for value in values if isinstance(value.memory, NoMemory))

    def step(self, step: Step) -> Step:
        found = self._windows(step) if isinstance(step, ComputeStep) else None
        if found is None or not isinstance(step, ComputeStep) or not self._gains(step, found):
            return step
        return self._slid(step, found)

    def _windows(self, step: ComputeStep) -> _Windows | None:
        """Return the windows of a step; None: it has none, or does more than that."""
        computation = step.computation
        if step.temporaries or step.arguments or step.arrangement.fusion or len(step.outputs) != 1:
            return None
        if len(computation.stages) != 1:
            return None
        (stage,), (result,) = computation.stages, step.outputs
        is_plain = not (stage.is_sequential or stage.lookups or stage.checks)
        if stage.fold is None or not is_tileable(stage.fold) or not is_plain:
            return None
        reads_of = [(n, e) for n, e in enumerate(stage.elements) if isinstance(e, Read)]
        for tensor, operand in zip(computation.inputs, step.inputs, strict=True):
            mine = [(number, element) for number, element in reads_of if element.tensor == tensor.name]
            if not isinstance(operand, ValueRef) or len(mine) != 1 or not slides(stage, tensor):
                continue
            if not any(mine[0][0] in linearise(total.term).inputs for total in stage.fold.totals):
                continue  # a residual is read once, after the sum
            if step.inputs.count(operand) == 1 and self._is_alike(operand.value, result):
                return self._windows_of(stage, tensor, operand.value, result, *mine[0])
        return None

    def _is_alike(self, operand: int, result: int) -> bool:
        """Whether two values are images in one layout, whose places may be chosen, without a border."""
        x, y = self.values[operand], self.values[result]
        both = 1 << operand | 1 << result
        return self._free & both == both and x.type == y.type and x.layout == y.layout and _has_rows(x.layout)

    def _windows_of(
        self, stage: Stage, tensor: Tensor, operand: int, result: int, number: int, element: Read
    ) -> _Windows | None:
        layout = self.values[operand].layout
        axes = [tuple(index.variables()) for index in stage.at]
        is_zero = element.fill is None or element.fills_zeros
        if layout is None or element.guards or not (is_zero or self._target.is_scalar):
            return None
        if any(len(variables) != 1 for variables in axes[1:]) or not _is_zero(stage.at[0]):
            return None
        if [Index.of(axis) for (axis,) in axes[1:]] != list(stage.at[1:]):
            return None
        (channels,), (rows,) = axes[1], axes[_ROWS]
        lanes = TOTALS if self._target.mve else self._target.lanes(max(tensor.dtype.bits // 8, 1))
        row = element.at[_ROWS]
        reach = [(index.interval.low, index.interval.high) for index in element.at[_ROWS:]]
        lows, highs = ([end for end in ends if end is not None] for ends in zip(*reach, strict=True))
        ahead = (layout.address(stage.at) - layout.address(element.at)).interval.high
        is_own = _is_zero(element.at[1] - stage.at[1]) and _is_zero(element.at[0]) and row.coefficient(rows) == 1
        if not is_own or len(lows) < len(reach) or len(highs) < len(reach) or ahead is None:
            return None
        if not isinstance(channels.extent, int) or channels.extent % lanes:
            return None
        first, count = (lows[0], lows[1]), (highs[0] - lows[0] + 1, highs[1] - lows[1] + 1)
        return _Windows(operand, result, tensor, number, channels, rows, first, count, ahead)

    def _gains(self, step: ComputeStep, windows: _Windows) -> bool:
        """Whether the arena would be larger with the result before its image than with a ring."""
        if self._live is None:
            self._live = Liveness(self._procedures, self._wanted)
        after = self._live.after(step) & self._free
        if after >> windows.operand & 1:
            return False
        if self._target.mve:
            return self._ring_nbytes(windows) * SMALL_RING <= self.values[windows.operand].stored.nbytes
        if self._target.is_scalar:
            return prod(windows.count) * SMALL_PLANE <= self.values[windows.operand].stored.nbytes
        itemsize = max(windows.tensor.dtype.bits // 8, 1)
        there = after | (reads(step) | writes(step)) & self._free
        others = sum(self.values[value].stored.nbytes for value in members(there & ~(1 << windows.operand)))
        before, ring = _aligned(windows.ahead * itemsize), _aligned(self._ring_nbytes(windows))
        return others + before > max(self._least, others + ring) + self._least // LEAST_GAIN

    def _ring_nbytes(self, windows: _Windows) -> int:
        """Return the bytes of the rows that a window reads, of the channels that are computed at a time."""
        *_, columns = self.values[windows.operand].type.shape
        height = windows.count[0] - (windows.rows.extent if isinstance(windows.rows.extent, int) else 0) + 1
        if self._target.mve:
            return height * windows.count[1] * block_of(windows.channels)
        return height * columns * self._target.vector_nbytes

    def _slid(self, step: ComputeStep, windows: _Windows) -> ComputeStep:
        """Return a step that copies rows into a ring, or a channel into a plane, and computes from there."""
        (stage,), value = step.computation.stages, self.values[windows.operand]
        is_plane = self._target.is_scalar and not self._target.mve
        has_border = is_plane or self._target.mve
        first = (0, 0, *windows.first) if has_border else (0, 0, windows.first[0], 0)
        shape = list(value.type.shape)
        shape[_ROWS] = windows.count[0]
        if has_border:
            shape[_ROWS + 1] = windows.count[1]
        ring = Tensor("plane" if is_plane else "ring", windows.tensor.dtype, tuple(map(Index.of, shape)))
        axes = tuple(Var(f"r{dim}", extent) for dim, extent in enumerate(shape))
        at = tuple(map(Index.of, axes))
        source = tuple(index + begin for index, begin in zip(at, first, strict=True))
        element = stage.elements[windows.element]
        if not isinstance(element, Read) or value.layout is None:
            raise TypeError(f"element {windows.element} of {stage.tensor} is not read from an image")
        borders = map(Within, source, windows.tensor.shape)
        fill = None if all(test.is_certain for test in borders) else element.fill
        taken = Read(windows.tensor.name, source, ring.dtype, fill)
        copy = Stage(ring.name, axes, (taken,), tree.Input(0, ring.dtype), at)
        places = tuple(index - begin for index, begin in zip(element.at, first, strict=True))
        is_inside = all(Within(index, extent).is_certain for index, extent in zip(places, ring.shape, strict=True))
        read = replace(element, tensor=ring.name, at=places, fill=None if is_inside else element.fill)
        elements = tuple(read if n == windows.element else other for n, other in enumerate(stage.elements))
        computation = replace(
            step.computation,
            temporaries=(ring,),
            stages=(copy, replace(stage, elements=elements)),
        )
        order = range(len(shape)) if is_plane else (digit.dim for digit in value.layout.digits)
        made = replace(
            value,
            name=f"{self.values[windows.result].name}.rows",
            number=len(self.values),
            type=replace(value.type, shape=tuple(shape)),
            role=Role.TEMPORARY,
            memory=NoMemory(),
            layout=Layout(ring.shape, tuple(Digit(dim, 1, ring.shape[dim]) for dim in order)),
        )
        self.values.append(made)
        lanes = self._target.lanes(max(ring.dtype.bits // 8, 1))
        rows = (Loop(windows.channels, lanes), Loop(windows.rows))
        arrangement = Arrangement(fusion=rows, sliding=True)
        if is_plane:
            schedules = (_copied(copy), _sums(stage, windows, self._target))
            arrangement = Arrangement(fusion=(Loop(windows.channels),), schedules=schedules)
        elif self._target.mve:
            rows = (Loop(windows.channels, block_of(windows.channels)), Loop(windows.rows))
            schedules = (copied_in_lanes(copy, axes[1]),)
            if ring.dtype is I8:
                schedules = (*schedules, sums_in_lanes(computation.stages[1], windows.channels))
            arrangement = Arrangement(fusion=rows, sliding=True, schedules=schedules)
        return replace(step, computation=computation, temporaries=(made.number,), arrangement=arrangement)


def _copied(copy: Stage) -> Schedule:
    """Return the schedule of a copy into a plane, a row at once."""
    return Schedule((*map(Loop, copy.axes[:-1]), Loop(copy.axes[-1], 1, Bind.UNROLL)))


def _sums(stage: Stage, windows: _Windows, target: TargetInfo) -> Schedule:
    """Return the schedule of windows over a plane: the totals of neighbouring columns, past which its elements move."""
    element = stage.elements[windows.element]
    if stage.fold is None or not isinstance(element, Read):
        raise TypeError(f"{stage.tensor} has no windows")
    along = element.at[_ROWS + 1].variables()
    (columns,) = (axis for axis in stage.axes if axis in along)
    taps = [axis for axis in stage.fold.axes if axis in along]
    others = [axis for axis in stage.fold.axes if axis not in along]
    # Each total of a row takes a register, and so does each weight of it.
    most = target.for_totals(I32).registers - prod(map(extent_of, taps)) - MOVING
    extent = extent_of(columns)
    tile = min(range(1, max(most, 1) + 1), key=lambda count: (-(-extent // count), count))
    serial = (Loop(axis, tile if axis == columns else 1) for axis in (*stage.axes, *others))
    written = (Loop(axis, 1, Bind.UNROLL) for axis in (*taps, columns))
    return Schedule((*serial, *written), stream=windows.element)


def _has_rows(layout: Layout | None) -> bool:
    """Whether a layout has one digit for each dimension, as many as places, and no halo."""
    if layout is None or layout.halo or len(layout.digits) != len(layout.shape):
        return False
    return all(digit.stride == 1 and digit.extent == layout.shape[digit.dim] for digit in layout.digits)


def _is_zero(index: Index) -> bool:
    return index.interval.low == index.interval.high == 0


def _aligned(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT
