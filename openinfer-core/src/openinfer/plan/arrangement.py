"""How each computation of a plan is carried out: a layout for every value, a schedule for every stage, weights packed.

Weights are laid out in the order in which the schedule of their reader reads them; the same weight read in two orders
is there twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.layout import Layout, row_major
from openinfer.lower.fused import needed
from openinfer.plan.accesses import mask, operands, reads, walk
from openinfer.plan.bands import banded, window_layouts
from openinfer.plan.borders import left_out
from openinfer.plan.byte_columns import with_byte_columns
from openinfer.plan.columns import with_columns
from openinfer.plan.dot_products import in_bytes, layouts_of_step, unaligned_images, with_dot_products
from openinfer.plan.exact_sums import with_exact_sums
from openinfer.plan.halos import is_narrow, room
from openinfer.plan.joined_products import with_joined_products
from openinfer.plan.layouts import layouts_of, movable
from openinfer.plan.liveness import Liveness
from openinfer.plan.overlap import advancing
from openinfer.plan.plan_data import PlanData
from openinfer.plan.ports import Borders, aligned, bordered, collected
from openinfer.plan.rewriting import with_steps
from openinfer.plan.row_sums import with_sums_along_rows
from openinfer.plan.rows import row_wise
from openinfer.plan.schedules import GivenSchedules, ScheduleFile
from openinfer.plan.sliding import over_their_images
from openinfer.plan.steps import Arrangement, ComputeStep, TableRef, ValueRef
from openinfer.plan.stride_versions import of_equal_extents
from openinfer.plan.tap_sums import with_written_out_sums
from openinfer.plan.values import NoMemory, PackedWeight, PlanValue, WeightMemory, WeightTable
from openinfer.plan.word_results import with_word_results
from openinfer.schedule import choose, equals, merged, packing, plain

PRECISION = 0.02
"""Times that differ by less than this share are equal within the precision of the cost model."""

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from openinfer.affine import Var
    from openinfer.arch import TargetInfo
    from openinfer.compute import Computation, Stage, Tensor
    from openinfer.plan.halos import Room
    from openinfer.plan.steps import Operand, Procedure, Step
    from openinfer.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Arranged:
    """The parts of a plan after its computations were arranged."""

    procedures: tuple[Procedure, ...]
    values: tuple[PlanValue, ...]
    weights: tuple[PackedWeight, ...]
    tables: tuple[WeightTable, ...]


def arranged(
    procedures: Sequence[Procedure],
    values: Sequence[PlanValue],
    weights: Sequence[PackedWeight],
    tables: Sequence[WeightTable],
    target: TargetInfo,
    wanted: int = 0,
    *,
    overlaps: bool = False,
    schedules: ScheduleFile | None = None,
) -> Arranged:
    """Return a plan whose computations have layouts, schedules and packed weights for a machine.

    Args:
        wanted: values that are read when the program has ended, as bits.
        overlaps: whether the arena is to be small: results may begin to overwrite operands that are still read, and
            images have no halo that makes it larger (`openinfer.plan.halos`).
        schedules: those that are not to be chosen.

    Raises:
        SynthesisError: a given schedule does not fit; see `openinfer.plan.schedules.GivenSchedules`.
    """
    unplaced = mask(v.number for v in values if isinstance(v.memory, NoMemory) and v.layout is None)
    free = movable(procedures, unplaced)
    types = [value.type for value in values]
    layouts, halos = layouts_of(procedures, types, free, target), None
    if overlaps and is_narrow(target):
        halos = room(layouts, procedures, Liveness(procedures, wanted), types, free, target)
        layouts = dict(halos.layouts)
    borders = Borders(layouts, weights, free, target, halos)
    procedures, values = bordered(procedures, values, borders)
    laid_out = [replace(v, layout=layouts[v.number]) if v.number in layouts else v for v in values]
    procedures, laid_out = collected(procedures, laid_out, free, target)
    if target.dsp:
        data = PlanData(list(laid_out), list(weights), list(tables))
        procedures, laid_out = aligned(procedures, laid_out, partial(unaligned_images, data=data))
    procedures = row_wise(banded(procedures, laid_out, target), laid_out, target)
    if halos is not None:
        procedures, laid_out = over_their_images(procedures, laid_out, wanted, halos.limit, target)
    data = PlanData(list(laid_out), list(weights), list(tables))
    procedures = with_joined_products(procedures, data, target)
    procedures = with_byte_columns(with_columns(procedures, data, target), data, target)
    own_schedules = GivenSchedules(schedules or ScheduleFile(()), procedures, target)
    arranging = _Arranging(data, target, own_schedules, overlaps=overlaps, room=halos)
    made = with_steps(procedures, lambda step: (arranging.step(step),))
    return _without_unread(Arranged(made, tuple(arranging.values), tuple(arranging.weights), tuple(arranging.tables)))


class _Arranging:
    """Arranges steps one after the other; values, weights and tables grow by those that are packed."""

    def __init__(
        self,
        data: PlanData,
        target: TargetInfo,
        own_schedules: GivenSchedules,
        *,
        overlaps: bool,
        room: Room | None,
    ) -> None:
        self._given = own_schedules
        self._room = room
        self.values, self.weights, self.tables = data.values, data.weights, data.tables
        self._data = data
        self._target = target
        self._overlaps = overlaps
        self._packed: dict[tuple[Operand, Layout], Operand] = {}
        self._weights: dict[tuple[int, Layout], int] = {}
        self._tables: dict[tuple[int, Layout], WeightTable] = {}

    def step(self, step: Step) -> Step:
        return self._computed(step) if isinstance(step, ComputeStep) else step

    def _computed(self, given_step: ComputeStep) -> ComputeStep:
        step = replace(given_step, arrangement=self._given.under(given_step))
        is_free = not (step.arrangement.fusion or step.arrangement.schedules)
        if (self._target.dot4 or self._target.dsp) and is_free:
            step = with_dot_products(step, self._data, signed=self._target.dsp, are_made=not self._target.dsp)
        if self._target.dot4 and not step.arrangement.fusion:
            step = with_word_results(step, self.values)
        if self._target.plain and not step.arrangement.schedules:
            free = packable(step, self._is_constant)
            unpacked = {name: at for name, at in layouts_of_step(step, self.values).items() if name not in free}
            step = with_sums_along_rows(step, unpacked, self._data)
            step = with_written_out_sums(step, layouts_of_step(step, self.values), self._data)
        step = with_exact_sums(step, self._data)
        layouts, free = layouts_of_step(step, self.values), packable(step, self._is_constant)
        fusion, computation = step.arrangement.fusion, step.computation
        parts = [part.left for part in needed(computation, fusion)] if fusion else []
        if not fusion:
            computation = replace(computation, stages=tuple(merged(stage, layouts) for stage in computation.stages))
        schedules: list[Schedule] = []
        inputs = list(step.inputs)
        numbers = {tensor.name: number for number, tensor in enumerate(computation.inputs)}
        own_schedules = dict(enumerate(step.arrangement.schedules)) | self._given.of(given_step, computation)
        for number, stage in enumerate(of_equal_extents(computation).stages):
            read = stage.tensors_read & free
            schedule = own_schedules.get(number) or self._chosen(
                step, stage, layouts, read, parts[number] if parts else None
            )
            schedules.append(schedule)
            for name in sorted(read):
                order = packing(stage, schedule, name)
                if order is not None and order != layouts[name] and _is_tiled(stage, schedule):
                    layouts[name] = order
                    inputs[numbers[name]] = self._packed_operand(inputs[numbers[name]], order)
        own = {tensor: layout for tensor, layout in layouts.items() if layout != row_major(layout.shape)}
        if fusion:
            for value, layout in window_layouts(step, layouts).items():
                words = step.computation.temporaries[step.temporaries.index(value)].dtype.bits
                is_worded = words > self.values[value].type.dtype.bits
                self.values[value] = replace(self.values[value], layout=in_bytes(layout) if is_worded else layout)
        sliding = step.arrangement.sliding
        arrangement = Arrangement(tuple(own.items()), tuple(schedules), self._target, fusion, sliding)
        return replace(step, computation=computation, inputs=tuple(inputs), arrangement=arrangement)

    def _chosen(
        self,
        step: ComputeStep,
        stage: Stage,
        layouts: dict[str, Layout],
        packed: set[str],
        within: Mapping[Var, int] | None,
    ) -> Schedule:
        """Return the schedule of a stage by cost; some of the tensors that it reads are packed for it."""
        unpacked = {name: at for name, at in layouts.items() if name not in packed}
        skip = left_out(stage, step, self.values, self.weights)
        if not self._overlaps or within is not None or stage.fold is None:
            return choose(stage, unpacked, self._target, within, skip)
        weights_nbytes = _nbytes(step.computation, packed)
        is_full = self._fills_arena(step)
        candidates = equals(stage, unpacked, self._target, skip, PRECISION if is_full else 0.0)
        return advancing(candidates, stage, layouts, weights_nbytes, self._target, is_full=is_full)

    def _fills_arena(self, step: ComputeStep) -> bool:
        """Whether an operand and a result of a step have no room apart in the arena."""
        inputs = (operand.value for operand in step.inputs if isinstance(operand, ValueRef))
        values = (self.values[value] for value in {*inputs, *step.outputs})
        nbytes = sum(value.stored.nbytes for value in values if isinstance(value.memory, NoMemory))
        return self._room is not None and nbytes > self._room.limit

    def _is_constant(self, operand: Operand) -> bool:
        if isinstance(operand, TableRef):
            table = next(table for table in self.tables if table.number == operand.table)
            return not table.type.dtype.is_packed
        if not isinstance(operand, ValueRef):
            return False
        value = self.values[operand.value]
        return isinstance(value.memory, WeightMemory) and not value.type.dtype.is_packed

    def _packed_operand(self, operand: Operand, layout: Layout) -> Operand:
        """Return the operand that has the elements of a weight, or of every entry of a table, in another layout."""
        if (operand, layout) not in self._packed:
            made = self._packed_table(operand, layout) if isinstance(operand, TableRef) else None
            self._packed[operand, layout] = made or self._packed_value(operand, layout)
        return self._packed[operand, layout]

    def _packed_value(self, operand: Operand, layout: Layout) -> ValueRef:
        if not isinstance(operand, ValueRef):
            raise TypeError(f"{operand} is not a weight")
        value = self.values[operand.value]
        if not isinstance(value.memory, WeightMemory):
            raise TypeError(f"{value.name} is not a weight")
        memory = WeightMemory(self._packed_weight(value.memory.number, layout))
        self.values.append(replace(value, number=len(self.values), memory=memory, layout=layout))
        return ValueRef(len(self.values) - 1)

    def _packed_table(self, operand: TableRef, layout: Layout) -> TableRef:
        table = next(table for table in self.tables if table.number == operand.table)
        key = (table.number, layout)
        if key not in self._tables:
            self._tables[key] = replace(
                table,
                number=max(t.number for t in self.tables) + 1,
                layout=layout,
                entries=tuple(None if e is None else self._packed_weight(e, layout) for e in table.entries),
                fixed=tuple((indices, self._packed_weight(e, layout)) for indices, e in table.fixed),
            )
            self.tables.append(self._tables[key])
        return replace(operand, table=self._tables[key].number)

    def _packed_weight(self, number: int, layout: Layout) -> int:
        key = (number, layout)
        if key not in self._weights:
            weight = self.weights[number]
            stored = storage_dtype(weight.type.dtype).newbyteorder("<")
            array = np.frombuffer(weight.data, stored).reshape(weight.type.shape)
            packed = layout.pack(array)
            self._weights[key] = len(self.weights)
            self.weights.append(
                replace(
                    weight,
                    number=len(self.weights),
                    data=packed.view(np.uint8).data.toreadonly(),
                    layout=layout,
                )
            )
        return self._weights[key]


def packable(step: ComputeStep, is_constant: Callable[[Operand], bool]) -> set[str]:
    """Return the constants of a computation that one stage reads, element by element along its axes.

    They are laid out for the schedule of that stage.
    """
    computation = step.computation
    readers: dict[str, list[Stage]] = {}
    for stage in computation.stages:
        for name in stage.tensors_read:
            readers.setdefault(name, []).append(stage)
    return {
        tensor.name
        for tensor, operand in zip(computation.inputs, step.inputs, strict=True)
        if is_constant(operand)
        and len(readers.get(tensor.name, ())) == 1
        and _is_read_whole(readers[tensor.name][0], tensor)
    }


def _is_read_whole(stage: Stage, tensor: Tensor) -> bool:
    order = packing(stage, plain(stage.all_axes), tensor.name)
    return order is not None and order.shape == tensor.shape


def _is_tiled(stage: Stage, schedule: Schedule) -> bool:
    """Whether a schedule reads the weights of a fold in tiles, again and again."""
    return stage.fold is not None and any(loop.is_copied for loop in schedule.loops)


def _nbytes(computation: Computation, tensors: Iterable[str]) -> int:
    """Return the bytes of some tensors whose extents are known."""
    return sum(row_major(tensor.shape).length * tensor.dtype.bits // 8 for tensor in map(computation.tensor, tensors))


def _without_unread(arranged: Arranged) -> Arranged:
    """Return the plan without weights and tables that no step reads any more; the others are renumbered."""
    steps = [step for procedure in arranged.procedures for step in walk(procedure.steps)]
    used = {o.table for step in steps for o in operands(step) if isinstance(o, TableRef)}
    tables = [table for table in arranged.tables if table.number in used]
    read = 0
    for step in steps:
        read |= reads(step)
    kept = {v.memory.number for v in arranged.values if isinstance(v.memory, WeightMemory) and read >> v.number & 1}
    for table in tables:
        kept |= {entry for entry in table.entries if entry is not None} | {entry for _, entry in table.fixed}
    numbers = {weight.number: index for index, weight in enumerate(w for w in arranged.weights if w.number in kept)}
    return Arranged(
        arranged.procedures,
        tuple(_renumbered(value, numbers) for value in arranged.values),
        tuple(replace(weight, number=numbers[weight.number]) for weight in arranged.weights if weight.number in kept),
        tuple(_table(table, numbers) for table in tables),
    )


def _renumbered(value: PlanValue, numbers: Mapping[int, int]) -> PlanValue:
    if not isinstance(value.memory, WeightMemory):
        return value
    index = numbers.get(value.memory.number)
    return replace(value, memory=NoMemory() if index is None else WeightMemory(index))


def _table(table: WeightTable, numbers: Mapping[int, int]) -> WeightTable:
    return replace(
        table,
        entries=tuple(None if entry is None else numbers[entry] for entry in table.entries),
        fixed=tuple((indices, numbers[entry]) for indices, entry in table.fixed),
    )
