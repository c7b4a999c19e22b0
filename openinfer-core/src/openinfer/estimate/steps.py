"""What each step of a plan costs: its work, the schedules that were chosen for it, and the memory that it needs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

from openinfer import dims
from openinfer.codegen import loop_program, operands_of
from openinfer.dims import is_size
from openinfer.estimate.cycles import kernel_cycles
from openinfer.estimate.sizes import PlanSizes, storage_nbytes
from openinfer.estimate.work import kernel_operations, multiply_accumulates, operations, reads_of
from openinfer.layout import row_major
from openinfer.loops import UnprovedAccessError, verify
from openinfer.lower.fused import needed
from openinfer.plan.accesses import mask, members, operands, reads, writes
from openinfer.plan.arrangement import packable
from openinfer.plan.liveness import Liveness
from openinfer.plan.report import numbered_steps
from openinfer.plan.steps import (
    ComputeStep,
    KernelStep,
    LoadStep,
    LoopProgramStep,
    LoopStep,
    StoreStep,
    TableRef,
    ValueRef,
)
from openinfer.plan.values import ArenaMemory, WeightMemory
from openinfer.schedule import compared

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.dims import Size
    from openinfer.loops import Accesses, Kernel
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import Operand, Step
    from openinfer.schedule import Schedule


_SINGLE = 4
"""Bytes of an f32, one of which is a register of a processor without vectors."""


@dataclass(frozen=True, slots=True)
class StageChoice:
    """The schedule of a stage.

    Attributes:
        tensor: what the stage computes.
        cycles: by the cost model; None where it does not decide.
        runner_up, runner_up_cycles: the second best schedule by the cost model.
    """

    tensor: str
    schedule: Schedule
    cycles: float | None = None
    runner_up: Schedule | None = None
    runner_up_cycles: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEstimate:
    """One step, carried out once. Counts are expressions of the sizes that the caller gives in every step.

    Attributes:
        number: from 1, in the order in which steps are listed.
        times: how often the loops around it run it; None: their bounds are known at run time only.
        operations: of its arithmetic; None where they are not known. See `openinfer.estimate.work`.
        macs: terms of sums that are products; None where they are not known.
        read_nbytes, written_nbytes: of operands, each element of which counts once.
        live_nbytes: of the arena that hold what the step reads, writes, or what is needed later.
        weight_nbytes: of the weights that it reads.
        proved, guarded: accesses that lie inside of their buffer whatever the data are, and because of a test.
        needs_guards: whether accesses lie inside because of tests of sizes that precede the step; they are not counted.
        choices: one for each stage of a computation.
        counted_cycles: by `openinfer.estimate.cycles`, on processors without vectors; None where it is not known.
    """

    number: int
    times: Size | None = 1
    operations: Size | None = 0
    macs: Size | None = 0
    read_nbytes: Size = 0
    written_nbytes: Size = 0
    live_nbytes: Size = 0
    weight_nbytes: int = 0
    proved: int = 0
    guarded: int = 0
    needs_guards: bool = False
    choices: tuple[StageChoice, ...] = ()
    counted_cycles: Size | None = None

    def at(self, sizes: Mapping[str, int]) -> StepEstimate:
        """Return the estimate of the step at some sizes."""
        return replace(
            self,
            times=_at(self.times, sizes),
            operations=_at(self.operations, sizes),
            macs=_at(self.macs, sizes),
            read_nbytes=_at(self.read_nbytes, sizes),
            written_nbytes=_at(self.written_nbytes, sizes),
            live_nbytes=_at(self.live_nbytes, sizes),
            counted_cycles=_at(self.counted_cycles, sizes),
        )

    @property
    def cycles(self) -> Size | float | None:
        """Cycles that were counted; else those of the stages that the cost model decides on, or None."""
        if self.counted_cycles is not None:
            return self.counted_cycles
        known = [choice.cycles for choice in self.choices if choice.cycles is not None]
        return sum(known) if known else None


@dataclass(frozen=True, slots=True)
class PlanEstimate:
    """What a plan costs: numbers, or expressions of the sizes that the caller gives in every step.

    Attributes:
        steps: as `ExecutionPlan.report` lists them: blocks from the first, loops before their bodies.
    """

    steps: tuple[StepEstimate, ...]

    def at(self, sizes: Mapping[str, int]) -> PlanEstimate:
        """Return the estimate at some sizes, all of them numbers.

        Raises:
            KeyError: a size that the caller gives has no value.
        """
        return PlanEstimate(tuple(step.at(sizes) for step in self.steps))

    @property
    def operations(self) -> Size:
        """Operations of all steps, each as often as loops of known bounds run it; unknown ones left out."""
        return sum(_times(step, step.operations) for step in self.steps if step.operations is not None)

    @property
    def macs(self) -> Size:
        """Multiply-accumulates of all steps, each as often as loops of known bounds run it; unknown ones left out."""
        return sum(_times(step, step.macs) for step in self.steps if step.macs is not None)

    @property
    def cycles(self) -> Size:
        """Counted cycles of all steps, each as often as loops of known bounds run it; 0 where none are counted."""
        return sum(_times(step, step.counted_cycles) for step in self.steps if step.counted_cycles is not None)

    @property
    def moved_nbytes(self) -> Size:
        """Bytes that steps read and write, each as often as loops of known bounds run it."""
        return sum(_times(step, step.read_nbytes + step.written_nbytes) for step in self.steps)

    @property
    def live_nbytes(self) -> Size:
        """Bytes of the arena that hold values at the step where these are most."""
        live = [step.live_nbytes for step in self.steps]
        largest = max([nbytes for nbytes in live if not is_size(nbytes)], default=0)
        return dims.max([largest, *filter(is_size, live)])

    @property
    def proved(self) -> int:
        return sum(step.proved for step in self.steps)

    @property
    def guarded(self) -> int:
        return sum(step.guarded for step in self.steps)


def _at(count: Any, sizes: Mapping[str, int]) -> Any:
    return count.at(sizes) if is_size(count) else count


def _times(step: StepEstimate, count: Size) -> Size:
    return count if step.times is None else count * step.times


def _accesses(kernel: Kernel) -> Accesses | None:
    """Count the accesses of a loop program; None where those rest on tests of sizes, which other steps make.

    Raises:
        LoopProgramError: the loop program is not sound, and has no sizes.
    """
    try:
        # Operators such as `not` have names that loop programs may not have as text.
        return verify(replace(kernel, name="step"))
    except UnprovedAccessError:
        if not kernel.parameters:
            raise
        return None


def _fewer(touched: Size, whole: Size) -> Size:
    """Return the bytes that are read of an operand, all of them where fewer are not certain at every size."""
    return touched if dims.surely(lambda: touched <= whole) else whole


def estimate(plan: ExecutionPlan) -> PlanEstimate:
    """Return what each step of a plan costs.

    Raises:
        LoopProgramError: a loop program of the plan, which has no sizes of steps, is not sound.
    """
    return PlanEstimate(tuple(_Estimating(plan).steps()))


class _Estimating:
    def __init__(self, plan: ExecutionPlan) -> None:
        self._plan = plan
        self._liveness = Liveness(plan.procedures, mask(output.value for output in plan.outputs))
        self._sizes = PlanSizes(plan)
        self._times: dict[int, Size | None] = {}
        for procedure in plan.procedures:
            self._count(procedure.steps, 1)

    def steps(self) -> Iterator[StepEstimate]:
        for number, step in numbered_steps(self._plan):
            yield self._step(number, step)

    def _count(self, steps: Sequence[Step], times: Size | None) -> None:
        for step in steps:
            self._times[id(step)] = times
            if isinstance(step, LoopStep):
                start, end = self._sizes.value(step.start), self._sizes.value(step.end)
                turns = None if start is None or end is None else dims.max(0, end - start)
                self._count(step.body, None if turns is None or times is None else times * turns)

    def _step(self, number: int, step: Step) -> StepEstimate:
        times, live = self._times[id(step)], self._live(step)
        if self._plan.is_view(step) or (isinstance(step, LoadStep) and step.view is not None):
            return StepEstimate(number=number, times=times, live_nbytes=live)
        given = list(dict.fromkeys(operands(step)))
        weights = {number for operand in given for number in self._weights(operand)}
        sizes = {operand: self._operand_nbytes(operand) for operand in given}
        if isinstance(step, LoadStep | StoreStep):
            region = ValueRef(step.output) if isinstance(step, LoadStep) else step.source
            moved = self._operand_nbytes(region)
            return StepEstimate(number=number, times=times, read_nbytes=moved, written_nbytes=moved, live_nbytes=live)
        found = StepEstimate(
            number=number,
            times=times,
            operations=None if isinstance(step, KernelStep) else 0,
            read_nbytes=sum(sizes.values()),
            written_nbytes=sum(map(self._value_nbytes, members(writes(step)))),
            live_nbytes=live,
            weight_nbytes=sum(self._plan.weights[weight].stored.nbytes for weight in weights),
        )
        return self._computing(step, found, sizes) if isinstance(step, ComputeStep | LoopProgramStep) else found

    def _computing(
        self, step: ComputeStep | LoopProgramStep, estimate: StepEstimate, sizes: dict[Operand, Size]
    ) -> StepEstimate:
        kernel = loop_program(step)
        accesses = _accesses(kernel)
        counted = kernel_operations(kernel)
        choices: tuple[StageChoice, ...] = ()
        macs: Size | None = 0
        if isinstance(step, ComputeStep):
            extents = self._sizes.extents(step)
            counted = operations(step.computation, extents)
            macs = multiply_accumulates(step.computation, extents)
            choices = tuple(self._choices(step))
            read = reads_of(step.computation, extents)
            for tensor, operand in zip(step.computation.inputs, step.inputs, strict=True):
                most = read.get(tensor.name, 0)
                if most is not None:
                    sizes[operand] = _fewer(storage_nbytes(tensor.dtype, most), sizes[operand])
        temporaries = step.temporaries if isinstance(step, ComputeStep) else ()
        again = sum(map(self._value_nbytes, temporaries))
        return StepEstimate(
            number=estimate.number,
            times=estimate.times,
            operations=counted,
            macs=macs,
            read_nbytes=sum(sizes.values()) + again,
            written_nbytes=estimate.written_nbytes,
            live_nbytes=estimate.live_nbytes,
            weight_nbytes=estimate.weight_nbytes,
            proved=0 if accesses is None else accesses.proved,
            guarded=0 if accesses is None else accesses.guarded,
            needs_guards=accesses is None,
            choices=choices,
            counted_cycles=self._cycles(step, kernel),
        )

    def _cycles(self, step: ComputeStep | LoopProgramStep, kernel: Kernel) -> Size | None:
        """Count cycles for a device that is known and has no vectors."""
        arch = self._plan.arch
        if arch is None or arch.machine.lanes(_SINGLE) != 1:
            return None
        wait = arch.flash_wait_states
        waits = {name: wait for name, operand in operands_of(step).items() if wait and [*self._weights(operand)]}
        return kernel_cycles(kernel, arch.machine, waits)

    def _choices(self, step: ComputeStep) -> Iterator[StageChoice]:
        computation, arrangement = step.computation, step.arrangement
        if not arrangement.schedules:  # the target of such a plan arranges loops itself
            return
        tensors = (*computation.inputs, *computation.outputs, *computation.temporaries)
        known = {tensor.name: row_major(tensor.shape) for tensor in tensors} | dict(arrangement.layouts)
        free = packable(step, self._is_constant)
        layouts = {name: layout for name, layout in known.items() if name not in free}
        fusion = arrangement.fusion
        parts = [part.left for part in needed(computation, fusion)] if fusion else [None] * len(computation.stages)
        bands = prod(-(-loop.axis.extent // loop.step) for loop in fusion if isinstance(loop.axis.extent, int))
        for stage, schedule, within in zip(computation.stages, arrangement.schedules, parts, strict=True):
            target = arrangement.target
            found = None if target is None else compared(stage, layouts, target, schedule, within)
            cycles, other = (None, None) if found is None else found
            yield StageChoice(
                stage.tensor,
                schedule,
                None if cycles is None else bands * cycles,
                runner_up=None if other is None else other[1],
                runner_up_cycles=None if other is None else bands * other[0],
            )

    def _is_constant(self, operand: Operand) -> bool:
        if isinstance(operand, TableRef):
            return not self._plan.table(operand.table).type.dtype.is_packed
        if not isinstance(operand, ValueRef):
            return False
        value = self._plan.values[operand.value]
        return isinstance(value.memory, WeightMemory) and not value.type.dtype.is_packed

    def _operand_nbytes(self, operand: Operand) -> Size:
        if isinstance(operand, TableRef):
            return self._plan.table(operand.table).type.nbytes
        return self._value_nbytes(operand.value) if isinstance(operand, ValueRef) else 0

    def _value_nbytes(self, value: int) -> Size:
        """Return the bytes of the elements of a value, without a halo."""
        return self._sizes.nbytes(value, self._plan.values[value].type)

    def _weights(self, operand: Operand) -> Iterator[int]:
        if isinstance(operand, TableRef):
            table = self._plan.table(operand.table)
            yield from (entry for entry in table.entries if entry is not None)
            yield from (entry for _, entry in table.fixed)
        elif isinstance(operand, ValueRef):
            memory = self._plan.values[operand.value].memory
            if isinstance(memory, WeightMemory):
                yield memory.number

    def _live(self, step: Step) -> Size:
        """Return the bytes of the arena that a step may not lose, those that it writes included."""
        held = self._liveness.after(step) | reads(step) | writes(step)
        places: list[tuple[int, int, int]] = []
        for number in members(held):
            value = self._plan.values[number]
            if isinstance(value.memory, ArenaMemory):
                places.append((value.memory.bank, value.memory.offset, number))
        total: Size = 0
        end: Size = 0
        before = 0
        for bank, start, number in sorted(places):
            end = end if bank == before else 0
            stop = start + self._sizes.nbytes(number, self._plan.values[number].stored)
            total = total + dims.max(0, stop - dims.max(start, end))
            before, end = bank, dims.max(end, stop)
        return total
