"""The execution plan: everything that a synth target needs in order to write a program out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.diagnostics import counted
from openinfer.plan.steps import CopyStep, ValueRef

if TYPE_CHECKING:
    from openinfer.arch import DeviceArch
    from openinfer.draw import Folded, Table
    from openinfer.plan.steps import Procedure, Step
    from openinfer.plan.values import PackedWeight, PlanInput, PlanOutput, PlanValue, WeightTable


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionPlan:
    """A program with kernels chosen, steps fused and memory laid out.

    Attributes:
        target: synth target that it was made for.
        inputs, outputs: what the caller gives and gets, in order.
        values: every value, by number.
        weights: data that comes with the program, by number.
        tables: prefix tables that some step reads.
        procedures: blocks, each after those that it calls; the last one is where a step starts.
        arena_nbytes: bytes of the arena.
        arch: the device that it was made for, where one was given.
    """

    target: str
    inputs: tuple[PlanInput, ...]
    outputs: tuple[PlanOutput, ...]
    values: tuple[PlanValue, ...]
    weights: tuple[PackedWeight, ...]
    tables: tuple[WeightTable, ...]
    procedures: tuple[Procedure, ...]
    arena_nbytes: int
    arch: DeviceArch | None = None

    def counts(self) -> str:
        """Return how many steps, weights and bytes there are, in words."""
        steps = sum(len(procedure.steps) for procedure in self.procedures)
        return f"{counted(steps, 'step')}, weights {self.weights_nbytes:,} bytes, arena {self.arena_nbytes:,} bytes"

    def __repr__(self) -> str:
        return f"<ExecutionPlan for {self.target}: {self.counts()}>"

    def _repr_html_(self) -> str:
        from openinfer.draw import fragment

        return fragment(f"ExecutionPlan for {self.target}", self.counts(), *self.notebook_parts())

    def notebook_parts(self) -> tuple[Table | Folded, ...]:
        """Return what a notebook shows: inputs and outputs, the schedule, the memory map."""
        from openinfer.draw import Folded, Table

        ports = [("input", port.name, str(port.type)) for port in self.inputs]
        ports += [("output", port.name, str(port.type)) for port in self.outputs]
        return (
            Table(("", "name", "type"), ports, "inputs and outputs"),
            Folded("schedule", self.report()),
            Folded("memory map", self.memory_map()),
        )

    @property
    def weights_nbytes(self) -> int:
        """Bytes of all weights."""
        return sum(weight.stored.nbytes for weight in self.weights)

    def table(self, number: int) -> WeightTable:
        """Return the prefix table of that number."""
        return next(table for table in self.tables if table.number == number)

    def is_view(self, step: Step) -> bool:
        """Whether a step copies a value to the memory that it lies in already, so that there is nothing to do."""
        if not isinstance(step, CopyStep) or not isinstance(step.source, ValueRef):
            return False
        return self.values[step.source.value].memory == self.values[step.output].memory

    def memory_map(self) -> str:
        """Return a table of the values in the arena: where each one lies."""
        from openinfer.plan.report import memory_map

        return memory_map(self)

    def report(self) -> str:
        """Return the schedule with what was fused, and sizes."""
        from openinfer.plan.report import report

        return report(self)
