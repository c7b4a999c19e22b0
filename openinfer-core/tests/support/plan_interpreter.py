"""Plans carried out on NumPy arrays by their host statements: what printers of third-party targets do, without text."""

from __future__ import annotations

from dataclasses import replace
from operator import gt, lt, ne

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.codegen import Assign, Refuse, Require, Run, Shrink, When, host_statements
from openinfer.dims import evaluated
from openinfer.dsl import graph
from openinfer.dtypes import BUILTIN
from openinfer.errors import ExecutionError
from openinfer.loops.interpret import interpret
from openinfer.model import Model
from openinfer.plan.operands import symbols
from openinfer.plan.steps import (
    BarrierStep,
    CallStep,
    CopyStep,
    FillStep,
    InputStep,
    LoopIndex,
    LoopStep,
    Register,
    ReturnStep,
    ValueRef,
)
from openinfer.plan.values import ArenaMemory, InputMemory, OutputMemory, StateMemory, ViewMemory
from openinfer.plugins.environment import Environment
from openinfer.plugins.types import SynthTargetSpec
from openinfer.synth import Bundle, Synthesizer

RELATIONS = {"<": lt, ">": gt, "!=": ne}
TARGET = SynthTargetSpec(
    name="interpreted",
    summary="plans that tests carry out",
    target="plan_interpreter:InterpretedTarget",
    expression_dtypes=frozenset(dtype.name for dtype in BUILTIN),
    computations=True,
    loop_programs=True,
    state=True,
)


def interpreted(text, tensors=None, sizes=None, limits=None):
    """Return the synthesis of a program for a target that prints host statements."""
    environment = Environment.default()
    environment = replace(environment, targets={**environment.targets, "interpreted": TARGET})
    synthesizer = Synthesizer("interpreted", environment=environment, limits=limits)
    return synthesizer.synthesize(Model.from_arrays(tensors or {}, sizevars=sizes or {}), graph(text))


class ProcedureLeftError(Exception):
    """A procedure ends."""


class InterpretedTarget:
    """Writes nothing."""

    epilogues = False

    def emit(self, plan):
        return Bundle({"plan.txt": plan.report().encode()})

    def build_and_run(self, *_, **__):
        raise AssertionError("plans are interpreted, never built")


class PlanInterpreter:
    """An instance of a program; types that are not packed only."""

    def __init__(self, plan):
        self.plan = plan
        self.registers = {register.number: register.initial for register in plan.registers}
        self.states = [_zeros(plan.values[state.value].stored) for state in plan.states]
        self._arena = np.zeros(plan.arena_nbytes, np.uint8)
        self._weights = [np.frombuffer(w.data, storage_dtype(w.type.dtype)) for w in plan.weights]
        self._inputs, self._outputs = [], [_zeros(port.type) for port in plan.outputs]
        self._loops = {}
        self._steps(plan.reset)

    def step(self, inputs):
        """Return the results of a step by name."""
        shapes = {port.name: np.shape(inputs[port.name]) for port in self.plan.inputs}
        self._inputs = [np.ravel(inputs[port.name]) for port in self.plan.inputs]
        sizes = {
            extent.number: length
            for port in self.plan.inputs
            for extent, length in zip(port.extents or (), shapes[port.name], strict=False)
            if isinstance(extent, Register)
        }
        for register in self.plan.registers:
            if not register.is_kept:
                is_size = register.size is not None
                self.registers[register.number] = sizes[register.number] if is_size else register.initial
        self._procedure(self.plan.procedures[-1].name)
        return {port.name: self._result(number, port) for number, port in enumerate(self.plan.outputs)}

    def _result(self, number, port):
        extents = port.type.shape if port.extents is None else port.extents
        shape = [self.registers[extent.number] if isinstance(extent, Register) else extent for extent in extents]
        return self._outputs[number][: int(np.prod(shape))].reshape(shape).copy()

    def _procedure(self, name):
        (procedure,) = (procedure for procedure in self.plan.procedures if procedure.name == name)
        try:
            self._steps(procedure.steps)
        except ProcedureLeftError:
            return

    def _steps(self, body):
        for step in body:
            self._step(step)

    def _step(self, step):
        match step:
            case CopyStep(source=source, output=output, count=count):
                if not self.plan.is_view(step):
                    self._copy(self._operand(source), output, count)
            case FillStep(output=output, value=value):
                self._value(output)[:] = value
            case InputStep(number=number, output=output, count=count):
                self._copy(self._inputs[number], output, count)
            case LoopStep(loop=loop, start=start, end=end, body=body):
                for index in range(self._integer(start), self._integer(end)):
                    self._loops[loop] = index
                    self._steps(body)
            case CallStep(procedure=procedure, condition=condition, otherwise=otherwise):
                name = procedure if condition is None or self._value(condition)[0] else otherwise
                if name is not None:
                    self._procedure(name)
            case ReturnStep():
                raise ProcedureLeftError
            case BarrierStep():
                pass
            case _:
                self.carry_out(host_statements(self.plan, step))

    def carry_out(self, statements):
        """Carry out host statements."""
        for statement in statements:
            match statement:
                case Assign(register, value):
                    self.registers[register] = self._integer(value)
                case When(left, relation, right, body):
                    if RELATIONS[relation](self._integer(left), self._integer(right)):
                        self.carry_out(body)
                case Refuse(code):
                    raise ExecutionError(code, code=code)
                case Require(entry):
                    self._operand(entry)
                case Run(kernel, operands, arguments):
                    arrays = map(self._operand, operands)
                    named = dict(zip((buffer.name for buffer in kernel.buffers), arrays, strict=True))
                    names = [var.name for var in kernel.parameters]
                    interpret(kernel, named, dict(zip(names, map(self._integer, arguments), strict=True)))
                case Shrink(state, value, registers):
                    array = self._value(state).reshape(self.plan.values[state].type.shape)
                    there = np.argwhere(array != value)
                    for axis, register in enumerate(registers):
                        if register is not None:
                            self.registers[register] = int(there[:, axis].max(initial=-1)) + 1

    def _copy(self, source, output, count):
        count = self.plan.values[output].type.count if count is None else self._integer(count)
        self._value(output)[:count] = source[:count]

    def _operand(self, operand):
        if isinstance(operand, LoopIndex):
            return np.array([self._loops[operand.loop]])
        if isinstance(operand, ValueRef):
            return self._value(operand.value)
        table = self.plan.table(operand.table)
        indices = tuple(map(self._integer, operand.indices))
        if indices in dict(table.fixed):
            return self._weights[dict(table.fixed)[indices]]
        places = [index - start for index, start in zip(indices, table.starts, strict=True)]
        if not all(0 <= place < extent for place, extent in zip(places, table.extents, strict=True)):
            raise ExecutionError("an index", code="out-of-range")
        return self._weights[table.entries[np.ravel_multi_index(places, table.extents)]]

    def _value(self, number):
        value = self.plan.values[number]
        match value.memory:
            case ArenaMemory(offset=offset):
                return self._arena[offset : offset + value.stored.nbytes].view(storage_dtype(value.type.dtype))
            case StateMemory(number=state):
                return self.states[state]
            case ViewMemory(state=state, register=register):
                return self._value(state)[self.registers[register] :]
            case InputMemory(number=port):
                return self._inputs[port]
            case OutputMemory(number=port):
                return self._outputs[port]
        return self._weights[value.memory.number]

    def _integer(self, index):
        value = evaluated(index, {symbol.name: self._read(symbol.operand) for symbol in symbols(index)})
        if not -(1 << 63) <= value < 1 << 63:
            raise ExecutionError(f"{value} needs more than 64 bits", code="integer-range")
        return value

    def _read(self, operand):
        match operand:
            case LoopIndex(loop):
                return self._loops[loop]
            case Register(number):
                return self.registers[number]
        return int(self._value(operand.value)[0])


def _zeros(type_):
    return np.zeros(type_.count, storage_dtype(type_.dtype))
