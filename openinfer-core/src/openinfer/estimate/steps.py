"""What each step of a plan costs: its work, the schedules that were chosen for it, and the memory that it needs."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from openinfer.codegen import loop_program
from openinfer.estimate.work import kernel_operations, operations, reads_of
from openinfer.layout import row_major
from openinfer.loops import Accesses, UnprovedAccessError, verify
from openinfer.lower.fused import needed
from openinfer.plan.accesses import mask, members, operands, reads, walk, writes
from openinfer.plan.arrangement import packable
from openinfer.plan.indices import constant
from openinfer.plan.liveness import Liveness
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
    from collections.abc import Iterator, Sequence

    from openinfer.loops import Kernel
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import Operand, Step
    from openinfer.schedule import Schedule


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
    """One step, carried out once.

    Attributes:
        number: from 1, in the order in which steps are listed.
        times: how often the loops around it run it; None: their bounds are known at run time only.
        operations: of its arithmetic; None where they are not known. See `openinfer.estimate.work`.
        read_nbytes, written_nbytes: of operands, each element of which counts once.
        live_nbytes: of the arena that hold what the step reads, writes, or what is needed later.
        weight_nbytes: of the weights that it reads.
        proved, guarded: accesses that lie inside of their buffer whatever the data are, and because of a test.
        choices: one for each stage of a computation.
    """

    number: int
    times: int | None = 1
    operations: int | None = 0
    read_nbytes: int = 0
    written_nbytes: int = 0
    live_nbytes: int = 0
    weight_nbytes: int = 0
    proved: int = 0
    guarded: int = 0
    choices: tuple[StageChoice, ...] = ()

    @property
    def cycles(self) -> float | None:
        """Cycles of the stages that the cost model decides on; None where it decides on none."""
        known = [choice.cycles for choice in self.choices if choice.cycles is not None]
        return sum(known) if known else None


@dataclass(frozen=True, slots=True)
class PlanEstimate:
    """What a plan costs.

    Attributes:
        steps: as `ExecutionPlan.report` lists them: blocks from the first, loops before their bodies.
    """

    steps: tuple[StepEstimate, ...]

    @property
    def operations(self) -> int:
        """Operations of all steps, each as often as loops of known bounds run it; unknown ones left out."""
        return sum((step.operations or 0) * (step.times or 1) for step in self.steps)

    @property
    def moved_nbytes(self) -> int:
        """Bytes that steps read and write, each as often as loops of known bounds run it."""
        return sum((step.read_nbytes + step.written_nbytes) * (step.times or 1) for step in self.steps)

    @property
    def proved(self) -> int:
        return sum(step.proved for step in self.steps)

    @property
    def guarded(self) -> int:
        return sum(step.guarded for step in self.steps)


def estimate(plan: ExecutionPlan) -> PlanEstimate:
    """Return what each step of a plan costs.

    Raises:
        LoopProgramError: a loop program of the plan is not sound.
    """
    return PlanEstimate(tuple(_Estimating(plan).steps()))


class _Estimating:
    def __init__(self, plan: ExecutionPlan) -> None:
        self._plan = plan
        self._liveness = Liveness(plan.procedures, mask(output.value for output in plan.outputs))
        self._times: dict[int, int | None] = {}
        for procedure in plan.procedures:
            self._count(procedure.steps, 1)

    def steps(self) -> Iterator[StepEstimate]:
        number = 0
        for procedure in reversed(self._plan.procedures):
            for step in walk(procedure.steps):
                number += 1
                yield self._step(number, step)

    def _count(self, steps: Sequence[Step], times: int | None) -> None:
        for step in steps:
            self._times[id(step)] = times
            if isinstance(step, LoopStep):
                start, end = constant(step.start), constant(step.end)
                known = None if start is None or end is None else max(0, end - start)
                self._count(step.body, None if known is None or times is None else times * known)

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
            written_nbytes=sum(self._plan.values[value].type.nbytes for value in members(writes(step))),
            live_nbytes=live,
            weight_nbytes=sum(self._plan.weights[weight].stored.nbytes for weight in weights),
        )
        return self._computing(step, found, sizes) if isinstance(step, ComputeStep | LoopProgramStep) else found

    def _computing(
        self, step: ComputeStep | LoopProgramStep, found: StepEstimate, sizes: dict[Operand, int]
    ) -> StepEstimate:
        kernel = loop_program(step)
        accesses = _accesses(kernel)
        counted = kernel_operations(kernel)
        choices: tuple[StageChoice, ...] = ()
        if isinstance(step, ComputeStep):
            counted = operations(step.computation)
            choices = tuple(self._choices(step))
            read = reads_of(step.computation)
            for tensor, operand in zip(step.computation.inputs, step.inputs, strict=True):
                most = read.get(tensor.name, 0)
                if most is not None:
                    sizes[operand] = min(sizes[operand], -(-most * tensor.dtype.bits // 8))
        temporaries = step.temporaries if isinstance(step, ComputeStep) else ()
        again = sum(self._plan.values[value].type.nbytes for value in temporaries)
        return StepEstimate(
            number=found.number,
            times=found.times,
            operations=counted,
            read_nbytes=sum(sizes.values()) + again,
            written_nbytes=found.written_nbytes,
            live_nbytes=found.live_nbytes,
            weight_nbytes=found.weight_nbytes,
            proved=accesses.proved,
            guarded=accesses.guarded,
            choices=choices,
        )

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

    def _operand_nbytes(self, operand: Operand) -> int:
        if isinstance(operand, TableRef):
            return self._plan.table(operand.table).type.nbytes
        return self._plan.values[operand.value].type.nbytes if isinstance(operand, ValueRef) else 0

    def _weights(self, operand: Operand) -> Iterator[int]:
        if isinstance(operand, TableRef):
            table = self._plan.table(operand.table)
            yield from (entry for entry in table.entries if entry is not None)
            yield from (entry for _, entry in table.fixed)
        elif isinstance(operand, ValueRef):
            memory = self._plan.values[operand.value].memory
            if isinstance(memory, WeightMemory):
                yield memory.number

    def _live(self, step: Step) -> int:
        """Return the bytes of the arena that a step may not lose, those that it writes included."""
        held = self._liveness.after(step) | reads(step) | writes(step)
        places: list[tuple[int, int, int]] = []
        for number in members(held):
            value = self._plan.values[number]
            if isinstance(value.memory, ArenaMemory):
                start = value.memory.offset
                places.append((value.memory.bank, start, start + value.stored.nbytes))
        total = end = before = 0
        for bank, start, stop in sorted(places):
            end = end if bank == before else 0
            total += max(0, stop - max(start, end))
            before, end = bank, max(end, stop)
        return total


def _accesses(kernel: Kernel) -> Accesses:
    """Return how many accesses a loop program proves to lie inside; none where that takes what a plan knows of sizes.

    Raises:
        LoopProgramError: the loop program is not sound.
    """
    try:
        return verify(kernel)
    except UnprovedAccessError:
        # The definition of the operator proved it, by how sizes such as a stride follow from others.
        if not kernel.parameters:
            raise
        return Accesses()
