"""A plan as one JavaScript module."""

from __future__ import annotations

import base64
from importlib.resources import files
from typing import TYPE_CHECKING

from openinfer.plugin import SynthesisError, comment, integer_text, loop_program, operands_of, steps, values
from openinfer_example_javascript.kernels import function
from openinfer_example_javascript.scalars import literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.plugin import ExecutionPlan, Index, Scalar, TensorType


def module(plan: ExecutionPlan) -> str:
    """Return a module with ``step``, ``inputs``, ``outputs`` and ``given`` (which inputs the caller gives)."""
    printer = _Printer(plan)
    procedures = [line for procedure in plan.procedures for line in printer.procedure(procedure)]
    start = f"export const step = p{len(plan.procedures) - 1};\n"
    runtime = (files(__package__) / "runtime.js").read_text(encoding="utf-8")
    return "\n".join((runtime, *_memory(plan), *printer.functions, *procedures, start))


def _memory(plan: ExecutionPlan) -> Iterator[str]:
    yield f"const arena = new ArrayBuffer({plan.arena_nbytes});\nexport const given = [];"
    for ports, name in ((plan.inputs, "inputs"), (plan.outputs, "outputs")):
        arrays = ", ".join(f"new {port.type.dtype}.array({_items(port.type)})" for port in ports)
        yield f"export const {name} = [{arrays}];"
    for weight in plan.weights:
        data = base64.b64encode(weight.data).decode("ascii")
        yield f'const w{weight.number} = weight({weight.type.dtype}, "{data}"); {comment(weight.source)}'
    for table in plan.tables:
        entries = ", ".join("null" if entry is None else f"w{entry}" for entry in table.entries)
        yield f"const table{table.number} = [{entries}]; {comment(table.name)}"
    for value in plan.values:
        if not isinstance(value.memory, values.NoMemory):
            yield f"const v{value.number} = {_place(value)}; {comment(f'{value.name}: {value.type}')}"


def _items(type_: TensorType) -> int:
    return type_.nbytes if type_.dtype.is_packed else type_.count


def _place(value: values.PlanValue) -> str:
    if isinstance(value.memory, values.ArenaMemory):
        return f"new {value.type.dtype}.array(arena, {value.memory.offset}, {_items(value.stored)})"
    form = {values.InputMemory: "inputs[{}]", values.OutputMemory: "outputs[{}]", values.WeightMemory: "w{}"}
    return form[type(value.memory)].format(value.memory.number)


class _Printer:
    def __init__(self, plan: ExecutionPlan) -> None:
        self._plan = plan
        self._numbers = {procedure.name: number for number, procedure in enumerate(plan.procedures)}
        self._known: dict[object, str] = {}
        self.functions: list[str] = []

    def procedure(self, procedure: steps.Procedure) -> list[str]:
        """Return a block of the program as a function; the functions of its steps are added to ``functions``."""
        return [f"function p{self._numbers[procedure.name]}() {{", *self._steps(procedure.steps), "}"]

    def _steps(self, body: Sequence[steps.Step]) -> Iterator[str]:
        for step in body:
            yield from (comment(statement.text) for statement in step.origin.statements)
            yield self._step(step)

    def _step(self, step: steps.Step) -> str:
        match step:
            case steps.ComputeStep() | steps.LoopProgramStep():
                return self._computed(step)
            case steps.CopyStep(source=source, output=output):
                return f"v{output}.set({self._operand(source)});"
            case steps.FillStep(output=output, value=value):
                return self._filled(output, value)
            case steps.InputStep(number=number, output=output):
                default = self._plan.inputs[number].default
                otherwise = "" if default is None else f" else {self._filled(output, default)}"
                return f"if (given[{number}]) v{output}.set(inputs[{number}]);{otherwise}"
            case steps.LoopStep(loop=loop, body=body):
                limits = f"l{loop} = {self._integer(step.start)}, end = {self._integer(step.end)}"
                return "\n".join((f"for (let {limits}; l{loop} < end; ++l{loop}) {{", *self._steps(body), "}"))
            case steps.CallStep():
                return self._call(step)
            case steps.EntryStep(entry=entry):
                return f"{self._operand(entry)};"
            case steps.ReturnStep() | steps.BarrierStep():
                return "return;" if isinstance(step, steps.ReturnStep) else ""
            case _:
                raise SynthesisError(f"{type(step).__name__} has no form in JavaScript", code="kernel-missing")

    def _computed(self, step: steps.ComputeStep | steps.LoopProgramStep) -> str:
        """Return the call of a step's function; equal loop programs share one."""
        kernel, operands = loop_program(step), operands_of(step)
        key = (kernel.body, kernel.buffers)
        if key not in self._known:
            self._known[key] = f"k{len(self._known)}"
            self.functions += function(self._known[key], kernel)
        return f"{self._known[key]}({', '.join(self._operand(operands[buffer.name]) for buffer in kernel.buffers)});"

    def _operand(self, operand: steps.Operand) -> str:
        if isinstance(operand, steps.ValueRef):
            return f"v{operand.value}"
        if isinstance(operand, steps.LoopIndex):
            return f"[l{operand.loop}]"
        table = self._plan.table(operand.table)
        if None not in (fixed := tuple(index.constant for index in operand.indices)):
            return f"w{dict(table.fixed)[fixed]}"
        indices = ", ".join(map(self._integer, operand.indices))
        return f"entry(table{table.number}, [{indices}], {[*table.starts]}, {[*table.extents]})"

    def _integer(self, index: Index) -> str:
        return integer_text(index, lambda value: f"({value}n)", self._named, lambda *x: f"exact({' '.join(x)})")

    def _named(self, meaning: steps.LoopIndex | steps.ValueRef) -> str:
        if isinstance(meaning, steps.LoopIndex):
            return f"l{meaning.loop}"
        dtype = self._plan.values[meaning.value].type.dtype
        return f"exact(BigInt({dtype}.load(v{meaning.value}, 0)))"

    def _call(self, step: steps.CallStep) -> str:
        call = f"p{self._numbers[step.procedure]}();"
        if step.condition is None:
            return call
        dtype = self._plan.values[step.condition].type.dtype
        other = "" if step.otherwise is None else f" else p{self._numbers[step.otherwise]}();"
        return f"if (cast({dtype}, bool, {dtype}.load(v{step.condition}, 0))) {call}{other}"

    def _filled(self, output: int, value: Scalar) -> str:
        type_ = self._plan.values[output].type
        return f"fill({type_.dtype}, v{output}, {type_.count}, {literal(type_.dtype, value)});"
