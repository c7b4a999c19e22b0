"""The execution plan: everything that a synth target needs in order to write a program out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.diagnostics import counted
from openinfer.plan.given_sizes import parameter_name
from openinfer.plan.options import DEFAULT, BundleOptions
from openinfer.plan.steps import CopyStep, Register, ValueRef
from openinfer.plan.values import NoMemory, StateMemory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.arch import DeviceArch
    from openinfer.draw import Folded, Picture, Table
    from openinfer.plan.steps import Procedure, Step
    from openinfer.plan.values import (
        PackedWeight,
        PlanInput,
        PlanOutput,
        PlanRegister,
        PlanState,
        PlanValue,
        WeightTable,
    )


MOST_STEPS = 200
"""Steps of a plan up to which a notebook shows its arena over time; it keeps every output in its file."""


@dataclass(frozen=True, slots=True)
class Bank:
    """A memory of the device that holds a part of the arena, and some of the states.

    Attributes:
        capacity: its bytes.
        arena_nbytes, states_nbytes: those that the plan uses for intermediate results and for states.
    """

    name: str
    kind: str
    capacity: int
    arena_nbytes: int
    states_nbytes: int = 0

    @property
    def nbytes(self) -> int:
        """Bytes that the plan uses of it."""
        return self.arena_nbytes + self.states_nbytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionPlan:
    """A program with kernels chosen, steps fused and memory laid out.

    Attributes:
        target: synth target that it was made for.
        inputs, outputs: what the caller gives and gets, in order.
        values: every value, by number.
        weights: data that comes with the program, by number.
        tables: prefix tables that some step reads.
        states: values that are kept between steps, by number.
        registers: sizes that are known at run time only, by number.
        reset: the steps that give these values their initial contents.
        procedures: blocks, each after those that it calls; the last one is where a step starts.
        arena_nbytes: bytes of the arena, in all memories.
        banks: the memories that it and the states are spread over; () where the device names none.
        arch: the device that it was made for, where one was given.
        options: how it is written out.
        program_digest: SHA-256 of the program, without places and identities of nodes; "" where it was not taken.
    """

    target: str
    inputs: tuple[PlanInput, ...]
    outputs: tuple[PlanOutput, ...]
    values: tuple[PlanValue, ...]
    weights: tuple[PackedWeight, ...]
    tables: tuple[WeightTable, ...]
    procedures: tuple[Procedure, ...]
    arena_nbytes: int
    states: tuple[PlanState, ...] = ()
    registers: tuple[PlanRegister, ...] = ()
    reset: tuple[Step, ...] = ()
    banks: tuple[Bank, ...] = ()
    arch: DeviceArch | None = None
    options: BundleOptions = DEFAULT
    program_digest: str = ""

    def counts(self) -> str:
        """Return a text with the numbers of steps, weights and bytes."""
        steps = sum(len(procedure.steps) for procedure in self.procedures)
        return f"{counted(steps, 'step')}, weights {self.weights_nbytes:,} bytes, arena {self.arena_nbytes:,} bytes"

    def __repr__(self) -> str:
        return f"<ExecutionPlan for {self.target}: {self.counts()}>"

    def _repr_html_(self) -> str:
        from openinfer.draw import fragment

        return fragment(f"ExecutionPlan for {self.target}", self.counts(), *self.notebook_parts())

    def notebook_parts(self) -> tuple[Table | Folded | Picture, ...]:
        """Return what a notebook shows: inputs and outputs, the schedule, the arena as a map and over time."""
        from openinfer.draw import Folded, Picture, Table
        from openinfer.plan.picture import arena_svg

        ports = [("input", port.name, str(port.type)) for port in self.inputs]
        ports += [("output", port.name, str(port.type)) for port in self.outputs]
        return (
            Table(("", "name", "type"), ports, "inputs and outputs"),
            Folded("schedule", self.report()),
            Folded("memory map", self.memory_map()),
            *((Picture("arena over time", arena_svg(self)),) if self._has_places() and self._is_short() else ()),
        )

    @property
    def state_nbytes(self) -> int:
        """Bytes of all values that are kept between steps."""
        return sum(state.type.nbytes for state in self.states)

    def memory_of(self, state: PlanState) -> str | None:
        """Return the name of the memory that holds a state; None where the device names none."""
        memory = self.values[state.value].memory
        if not isinstance(memory, StateMemory) or memory.bank is None:
            return None
        return self.banks[memory.bank].name

    def _has_places(self) -> bool:
        return self.arena_nbytes > 0 or any(bank.nbytes for bank in self.banks)

    def _is_short(self) -> bool:
        """Whether there are few enough steps for a picture in a notebook."""
        return sum(len(procedure.steps) for procedure in self.procedures) <= MOST_STEPS

    @property
    def weights_nbytes(self) -> int:
        """Bytes of all weights."""
        return sum(weight.stored.nbytes for weight in self.weights)

    @property
    def given_sizes(self) -> dict[str, int]:
        """The largest value of each size that a step is given."""
        return {register.size: register.most for register in self.registers if register.size is not None}

    def shape_of(self, port: PlanInput, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape of an input in a step of some sizes."""
        values = {parameter_name(name): value for name, value in sizes.items()}
        dims = [self.registers[e.number].extent if isinstance(e, Register) else Index.of(e) for e in port.extents or ()]
        return tuple(e.evaluate(values) for e in dims if e is not None) if dims else port.type.shape

    def table(self, number: int) -> WeightTable:
        """Return the prefix table of that number."""
        return next(table for table in self.tables if table.number == number)

    def is_view(self, step: Step) -> bool:
        """Whether a step copies a value to the memory that it lies in already, so that there is nothing to do."""
        if not isinstance(step, CopyStep) or not isinstance(step.source, ValueRef):
            return False
        memory = self.values[step.output].memory
        return not isinstance(memory, NoMemory) and self.values[step.source.value].memory == memory

    def memory_map(self) -> str:
        """Return a table of the values in the arena, and of states in memories of the device: where each one lies."""
        from openinfer.plan.report import memory_map

        return memory_map(self)

    def report(self) -> str:
        """Return the schedule with what was fused, and sizes."""
        from openinfer.plan.report import report

        return report(self)
