"""Steps of a plan as functions of the host that queue the work of each, and compute what the host keeps by itself."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.errors import UnsupportedError
from openinfer.plan.failing import changes_state
from openinfer.plan.steps import (
    BarrierStep,
    CallStep,
    ClearStep,
    ComputeStep,
    CopyStep,
    CountStep,
    Demand,
    EntryStep,
    EqualStep,
    FillStep,
    InputStep,
    LoadStep,
    LoopIndex,
    LoopStep,
    PlaceStep,
    ReturnStep,
    SetStep,
    StoreStep,
    ValueRef,
)
from openinfer_backend_vulkan.programs.integers import StepFaultError, index_reader, reader
from openinfer_backend_vulkan.programs.movement import Movement
from openinfer_backend_vulkan.programs.operands import Operands
from openinfer_backend_vulkan.programs.operators import Operators
from openinfer_backend_vulkan.programs.scalars import wrapped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.plan.execution_plan import ExecutionPlan
    from openinfer.plan.steps import Procedure, Step
    from openinfer_backend_vulkan.programs.integers import IndexReader
    from openinfer_backend_vulkan.programs.machine import Machine
    from openinfer_backend_vulkan.programs.memory import ProgramMemory
    from openinfer_backend_vulkan.programs.operands import Run
    from openinfer_backend_vulkan.queue.engine import Engine


class Steps:
    """Turns the procedures of a plan into functions."""

    def __init__(self, plan: ExecutionPlan, memory: ProgramMemory, machine: Machine, engine: Engine) -> None:
        self._plan, self._memory, self._machine = plan, memory, machine
        operands = Operands(plan, memory, machine)
        self._operands = operands
        self._operators = Operators(plan, operands, engine)
        self._movement = Movement(plan, operands, engine)
        self._procedures: dict[str, Run] = {}

    def procedures(self, procedures: Sequence[Procedure]) -> Mapping[str, Run]:
        """Return functions of procedures, callees first.

        Raises:
            UnsupportedError, KernelMissingError, ExprError: a step has no form on this device.
        """
        for procedure in procedures:
            self._procedures[procedure.name] = self.block(procedure.steps)
        return self._procedures

    def block(self, steps: Sequence[Step]) -> Run:
        """Return a function that executes steps in order; it raises StepFaultError with the statement."""
        runs = [(run, _node(step)) for step in steps for run in self._guarded(step)]
        calls, nodes = [run for run, _ in runs], [node for _, node in runs]

        def run() -> bool | None:
            call = None
            try:
                for call in calls:
                    if call():
                        return True
            except StepFaultError as error:
                if error.node is None and call is not None:
                    error.node = nodes[calls.index(call)]
                raise
            return None

        return run

    def _guarded(self, step: Step) -> list[Run]:
        """Return what carries a step out; persistent values change only if no kernel has refused anything."""
        runs = self._step(step)
        return [self._machine.need_no_fault, *runs] if changes_state(step, self._plan) else runs

    def _step(self, step: Step) -> list[Run]:
        match step:
            case ComputeStep():
                return self._operators.compute(step)
            case CountStep() if step.target in self._memory.of_host:
                return [self._count(step)]
            case CountStep():
                return self._operators.count(step)
            case CopyStep() | FillStep() | InputStep() if step.output in self._memory.of_host:
                return [self._kept(step)]
            case CopyStep() | FillStep() | InputStep() | LoadStep() | StoreStep() | ClearStep():
                return self._movement.runs(step)
            case _:
                return self._control(step)

    def _control(self, step: Step) -> list[Run]:
        match step:
            case SetStep():
                return [self._set(step)]
            case PlaceStep():
                return [self._place(step)]
            case EqualStep():
                return [self._equal(step)]
            case EntryStep():
                entry = self._operands.entry(step.entry)
                return [lambda: entry() < 0]
            case LoopStep():
                return [self._loop(step)]
            case CallStep():
                return [self._call(step)]
            case ReturnStep():
                return [lambda: True]
            case BarrierStep():
                return []
            case _:
                raise UnsupportedError(f"a step {type(step).__name__} has no form on this device")

    def _kept(self, step: CopyStep | FillStep | InputStep) -> Run:
        """Return what gives a value of the host another one."""
        machine, scalars, target = self._machine, self._machine.scalars, step.output
        dtype = self._plan.values[target].type.dtype
        match step:
            case CopyStep(source=ValueRef(value)):
                return lambda: scalars.__setitem__(target, wrapped(machine.scalar(value), dtype))
            case CopyStep(source=LoopIndex(loop)):
                return lambda: scalars.__setitem__(target, wrapped(machine.loops[loop], dtype))
            case FillStep():
                value = int(step.value)
                return lambda: scalars.__setitem__(target, value)
            case InputStep():
                storage = self._memory.given[step.number]
                return lambda: scalars.__setitem__(
                    target, int(machine.element(storage, self._plan.values[target].type))
                )
            case _:
                raise UnsupportedError("an entry of a table has no form among the integers of the host")

    def _count(self, step: CountStep) -> Run:
        scalars, target, amount = self._machine.scalars, step.target, reader(step.amount, self._machine)
        dtype, sign = self._plan.values[target].type.dtype, -1 if step.down else 1

        def run() -> None:
            by = amount()
            if by < 0:
                raise StepFaultError("out-of-range", f"an amount of {by}: it must not be negative")
            scalars[target] = wrapped(scalars[target] + sign * by, dtype)

        return run

    def _set(self, step: SetStep) -> Run:
        if any(register in self._machine.deferrable for register, _ in step.values):
            return self._set_counted(step)
        registers = self._machine.registers
        values = [(register, reader(value, self._machine)) for register, value in step.values]
        if len(values) == 1:
            ((only, read),) = values
            return lambda: registers.__setitem__(only, read())

        def run() -> None:
            numbers = [value() for _, value in values]
            for (register, _), value in zip(values, numbers, strict=True):
                registers[register] = value

        return run

    def _set_counted(self, step: SetStep) -> Run:
        machine = self._machine

        def index_of(register: int, value: Index) -> IndexReader:
            if register in machine.deferrable:
                return index_reader(value, machine)
            read = reader(value, machine)
            return lambda: Index.of(read())

        values = [(register, index_of(register, value)) for register, value in step.values]

        def run() -> None:
            for register, index in [(register, value()) for register, value in values]:
                machine.set_register(register, index)

        return run

    def _place(self, step: PlaceStep) -> Run:
        set_register = self._given_place(step)
        return (
            self._operators.count_rows(step, set_register)
            if step.register in self._machine.deferrable
            else set_register
        )

    def _given_place(self, step: PlaceStep) -> Run:
        bounds, registers = step.range, self._machine.registers

        def read(index: Index | None) -> Callable[[], int | None]:
            return (lambda: None) if index is None else reader(index, self._machine)

        setting, low, high = reader(step.value, self._machine), read(bounds.low), read(bounds.high)
        least, most, size = read(bounds.least), read(bounds.most), read(bounds.size)
        demanded = self._demanded(step.demand)

        def run() -> None:
            value, counted = setting(), size()
            if counted is not None and value < 0:
                value += counted
            lowest, highest = least(), most()
            if (lowest is not None and value < lowest) or (highest is not None and value > highest):
                message = demanded() or f"a setting of {value}, expected {lowest} to {highest}"
                raise StepFaultError("shape-mismatch", message)
            first, last = low(), high()
            value = value if last is None else min(value, last)
            self._machine.pending.pop(step.register, None)
            registers[step.register] = value if first is None else max(value, first)

        return run

    def _equal(self, step: EqualStep) -> Run:
        left, right = reader(step.left, self._machine), reader(step.right, self._machine)
        demanded = self._demanded(step.demand)

        def run() -> None:
            one, other = left(), right()
            if one != other:
                raise StepFaultError("shape-mismatch", demanded() or f"sizes of {one} and {other} have to be equal")

        return run

    def _demanded(self, demand: Demand | None) -> Callable[[], str]:
        """Return a function that says what a statement demands, and what the sizes are; "" where nothing is known."""
        if demand is None:
            return lambda: ""
        sizes = [(name, reader(value, self._machine)) for name, value in demand.sizes]
        return lambda: f"{demand.text}, {' and '.join(f'{name} is {value()}' for name, value in sizes)}"

    def _loop(self, step: LoopStep) -> Run:
        start, end = reader(step.start, self._machine), reader(step.end, self._machine)
        loops, loop, body = self._machine.loops, step.loop, self.block(step.body)

        def run() -> bool | None:
            for value in range(start(), end()):
                loops[loop] = value
                if body():
                    return True
            return None

        return run

    def _call(self, step: CallStep) -> Run:
        called = self._procedures[step.procedure]
        if step.condition is None:
            return partial(_left, called)
        condition, truth = step.condition, self._machine.truth
        otherwise = None if step.otherwise is None else self._procedures[step.otherwise]

        def run() -> None:
            chosen = called if truth(condition) else otherwise
            if chosen is not None:
                chosen()

        return run


def _left(procedure: Run) -> None:
    """Run a procedure; a return leaves only this procedure."""
    procedure()


def _node(step: Step) -> int | None:
    return step.origin.statements[0].node if step.origin.statements else None
