"""Names and types in the generated source, made from the names in a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import I64
from openinfer.errors import SynthesisError
from openinfer.ir.types import TensorType
from openinfer.plan.accesses import walk
from openinfer.plan.steps import LoopIndex, LoopStep, TableRef
from openinfer.plan.values import ArenaMemory, InputMemory, OutputMemory, StateMemory, ViewMemory, WeightMemory
from openinfer.synth.c_host.port_names import PortNames
from openinfer.synth.identifiers import Identifiers
from openinfer_synth_c.view_bounds import moving_registers

if TYPE_CHECKING:
    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import Operand


class Names(PortNames):
    """Identifiers of a plan's values, weights, tables, blocks and loops; equal plans get equal names.

    ``weights_apart``: the weights are in a file of their own, and tables hold offsets into it.
    """

    def __init__(self, plan: ExecutionPlan, *, weights_apart: bool) -> None:
        super().__init__(plan)
        self._plan = plan
        self.weights_apart = weights_apart
        arena, weights, tables = Identifiers(), Identifiers(), Identifiers()
        blocks, loops = Identifiers(), Identifiers()
        self.weights = tuple(weights.name("w_", weight.source) for weight in plan.weights)
        self.tables = {table.number: tables.name("t_", table.name) for table in plan.tables}
        self.arena = {
            value.number: arena.name("a_", value.name) for value in plan.values if isinstance(value.memory, ArenaMemory)
        }
        self.blocks = {procedure.name: blocks.name("block_", procedure.name) for procedure in plan.procedures}
        self._functions = blocks
        steps = [step for procedure in plan.procedures for step in walk(procedure.steps)]
        self.used_weights: set[int] = set()
        self.used_tables: set[int] = set()
        self.used_places: set[int] = set()
        self.moving_views = moving_registers(plan)
        found = [step for step in steps if isinstance(step, LoopStep)]
        self.loops = {step.loop: loops.name("i_", step.index) for step in found}
        self.loop_bounds = {
            step.loop: (loops.name("start_", step.index), loops.name("end_", step.index)) for step in found
        }

    def part_of_block(self, procedure: str) -> str:
        """Return a name for the function of a part of a block."""
        return self._functions.name("block_", f"{procedure}_part")

    def value(self, number: int) -> str:
        """Return the expression of the address of a value's first element."""
        match self._plan.values[number].memory:
            case InputMemory(number=at):
                return f"inputs->{self.inputs[at]}"
            case OutputMemory(number=at):
                return f"outputs->{self.outputs[at]}"
            case WeightMemory(number=at):
                return self.weight(at)
            case StateMemory(number=at, bank=None):
                return f"model->{self.states[at]}"
            case StateMemory(number=at):
                return self.states[at]
            case ViewMemory(state=of, register=at):
                return f"({self.value(of)} + {self.register(at)})"
            case ArenaMemory():
                self.used_places.add(number)
                return self.arena[number]
            case _:
                raise SynthesisError(f"value {self._plan.values[number].name!r} has no memory in the plan")

    def weight(self, number: int) -> str:
        """Return the name of a weight and note that it is used: C compilers warn of data that nothing reads."""
        self.used_weights.add(number)
        return self.weights[number]

    def table(self, number: int) -> str:
        """Return the name of a table and note that it is used, with all of its weights."""
        self.used_tables.add(number)
        self.used_weights.update(entry for entry in self._plan.table(number).entries if entry is not None)
        return self.tables[number]

    def type_of_value(self, number: int) -> TensorType:
        """Return the type of a value's memory."""
        return self._plan.values[number].stored

    def type_of(self, operand: Operand) -> TensorType:
        """Return the type of an operand's memory."""
        if isinstance(operand, LoopIndex):
            return TensorType(I64)
        if isinstance(operand, TableRef):
            return self._plan.table(operand.table).stored
        return self._plan.values[operand.value].stored
