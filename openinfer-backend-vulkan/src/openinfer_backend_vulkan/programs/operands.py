"""Where the operands of steps lie, and what carries a step out."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from openinfer.dtypes import I64
from openinfer.plan.steps import LoopIndex, TableRef, ValueRef
from openinfer_backend_vulkan.programs.integers import StepFaultError, reader

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import Operand
    from openinfer_backend_vulkan.programs.machine import Machine
    from openinfer_backend_vulkan.programs.memory import ProgramMemory
    from openinfer_backend_vulkan.queue.hazards import Place

    Run: TypeAlias = Callable[[], bool | None]
    """Carries a step out; True: it leaves the procedure."""


class Operands:
    """Where operands lie: fixed places, entries of tables, and integers of the host in the parameter block."""

    def __init__(self, plan: ExecutionPlan, memory: ProgramMemory, machine: Machine) -> None:
        self._plan, self.memory, self.machine = plan, memory, machine

    def place(self, operand: Operand) -> Callable[[], Place]:
        """Return a function that says where an operand lies.

        It raises StepFaultError, ``out-of-range``, where a table has no such entry.
        """
        machine = self.machine
        match operand:
            case ValueRef(value) if value in self.memory.of_host:
                dtype = self._plan.values[value].type.dtype
                return lambda: machine.stored(dtype, machine.scalars[value])
            case ValueRef(value):
                place = self.memory.place(value)
                return lambda: place
            case LoopIndex(loop):
                return lambda: machine.stored(I64, machine.loops[loop])
            case TableRef():
                weight = self.entry(operand)
                return lambda: self.memory.weight(weight())

    def is_fixed(self, operand: Operand) -> bool:
        """Whether an operand lies in one place in all steps."""
        return isinstance(operand, ValueRef) and operand.value not in self.memory.of_host

    def entry(self, ref: TableRef) -> Callable[[], int]:
        """Return a function that says which weight an entry of a table is; it raises as `place` does."""
        table = self._plan.table(ref.table)
        indices = [reader(index, self.machine) for index in ref.indices]
        fixed = dict(table.fixed)

        def found() -> int:
            values = tuple([index() for index in indices])
            number = fixed.get(values)
            if number is not None:
                return number
            at = 0
            for value, start, extent in zip(values, table.starts, table.extents, strict=True):
                if not 0 <= value - start < extent:
                    raise StepFaultError("out-of-range", f"`{table.name}{list(values)}` is not there")
                at = at * extent + value - start
            number = table.entries[at]
            if number is None:
                raise StepFaultError("out-of-range", f"`{table.name}{list(values)}` is not there")
            return number

        return found
