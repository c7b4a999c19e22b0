"""A plan as one JavaScript module."""

from __future__ import annotations

import base64
from importlib.resources import files
from typing import TYPE_CHECKING

from openinfer.plugin import SynthesisError, codegen, comment, integer_text, steps, values
from openinfer_example_javascript.kernels import function
from openinfer_example_javascript.scalars import literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.plugin import ExecutionPlan, Index, Scalar, TensorType


def module(plan: ExecutionPlan) -> str:
    """Return a module with ``step``, and the arrays and registers that the caller of a step reads and writes."""
    printer = _Printer(plan)
    procedures = [line for procedure in plan.procedures for line in printer.procedure(procedure)]
    runtime = (files(__package__) / "runtime.js").read_text(encoding="utf-8")
    lines = (runtime, *_memory(plan), *printer.restart(), *printer.functions, *procedures, *printer.start())
    return "\n".join(lines)


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
    arrays = ", ".join(
        f"new {state.type.dtype}.array({_items(plan.values[state.value].stored)})" for state in plan.states
    )
    yield f"export const states = [{arrays}];"
    for value in plan.values:
        if not isinstance(value.memory, values.NoMemory | values.ViewMemory):
            yield f"const v{value.number} = {_place(value)}; {comment(f'{value.name}: {value.type}')}"
    yield f"export const registers = [{', '.join(f'{register.initial}n' for register in plan.registers)}];"


def _items(type_: TensorType) -> int:
    return type_.nbytes if type_.dtype.is_packed else type_.count


def _place(value: values.PlanValue) -> str:
    memory = value.memory
    match memory:
        case values.ArenaMemory(offset=offset):
            return f"new {value.type.dtype}.array(arena, {offset}, {_items(value.stored)})"
        case values.StateMemory(number=number):
            return f"states[{number}]"
        case values.InputMemory(number=number):
            return f"inputs[{number}]"
        case values.OutputMemory(number=number):
            return f"outputs[{number}]"
        case values.WeightMemory(number=number):
            return f"w{number}"
        case _:
            raise SynthesisError(f"{type(memory).__name__} has no form in JavaScript")


class _Printer:
    def __init__(self, plan: ExecutionPlan) -> None:
        self._plan = plan
        self._numbers = {procedure.name: number for number, procedure in enumerate(plan.procedures)}
        self._known: dict[object, str] = {}
        self.functions: list[str] = []

    def procedure(self, procedure: steps.Procedure) -> list[str]:
        """Return a block of the program as a function; the functions of its steps are added to ``functions``."""
        return [f"function p{self._numbers[procedure.name]}() {{", *self._steps(procedure.steps), "}"]

    def restart(self) -> list[str]:
        """Return the function that gives states their first values."""
        return ["function restart() {", *self._steps(self._plan.reset), "}"]

    def start(self) -> Iterator[str]:
        """Yield the function of a step, which takes its sizes, and that of the shapes of its results."""
        yield "export function step(sizes) {"
        size_number = 0
        for register in self._plan.registers:
            first = f"{register.initial}n"
            if register.size is not None:
                first, size_number = f"BigInt(sizes[{size_number}])", size_number + 1
            yield "" if register.is_kept else f"registers[{register.number}] = {first};"
        yield f"p{len(self._plan.procedures) - 1}();\n}}"
        shapes = [f"[{', '.join(map(_extent, port.extents or port.type.shape))}]" for port in self._plan.outputs]
        yield f"export const shapes = () => [{', '.join(shapes)}];"
        yield f"export const bits = {[port.type.dtype.bits for port in self._plan.outputs]};\nrestart();\n"

    def _steps(self, body: Sequence[steps.Step]) -> Iterator[str]:
        for step in body:
            yield from (comment(statement.text) for statement in step.origin.statements)
            yield self._step(step)

    def _step(self, step: steps.Step) -> str:
        match step:
            case steps.CopyStep(source=source, output=output, count=count):
                return "" if self._plan.is_view(step) else self._copied(output, self._operand(source), count)
            case steps.FillStep(output=output, value=value):
                return self._filled(output, value)
            case steps.InputStep(number=number, output=output, count=count):
                default = self._plan.inputs[number].default
                otherwise = "" if default is None else f" else {self._filled(output, default)}"
                return f"if (given[{number}]) {self._copied(output, f'inputs[{number}]', count)}{otherwise}"
            case steps.LoopStep(loop=loop, body=body):
                limits = f"l{loop} = {self._integer(step.start)}, end = {self._integer(step.end)}"
                return "\n".join((f"for (let {limits}; l{loop} < end; ++l{loop}) {{", *self._steps(body), "}"))
            case steps.CallStep():
                return self._call(step)
            case steps.ReturnStep() | steps.BarrierStep():
                return "return;" if isinstance(step, steps.ReturnStep) else ""
            case steps.KernelStep():
                raise SynthesisError("this target has no kernels", code="kernel-missing")
            case _:
                return "\n".join(map(self._host, codegen.host_statements(self._plan, step)))

    def _host(self, statement: codegen.HostStatement) -> str:
        match statement:
            case codegen.Assign(register=register, value=value):
                return f"registers[{register}] = {self._integer(value)};"
            case codegen.When(left=left, relation=relation, right=right, body=body):
                test = f"{self._integer(left)} {relation} {self._integer(right)}"
                return "\n".join((f"if ({test}) {{", *map(self._host, body), "}"))
            case codegen.Refuse(code=code):
                return f'refuse("{code}");'
            case codegen.Require(entry=entry):
                return f"{self._operand(entry)};"
            case codegen.Run():
                return self._run(statement)
            case codegen.Shrink(state=state, value=value, registers=registers):
                type_ = self._plan.values[state].type
                wanted = [-1 if register is None else register for register in registers]
                first = literal(type_.dtype, value)
                return f"shrink(registers, {wanted}, {type_.dtype}, v{state}, {[*type_.shape]}, {first});"

    def _run(self, call: codegen.Run) -> str:
        """Return the call of a loop program's function; equal loop programs share one."""
        key = (call.kernel.body, call.kernel.buffers, call.kernel.parameters)
        if key not in self._known:
            self._known[key] = f"k{len(self._known)}"
            self.functions += function(self._known[key], call.kernel)
        arguments = [
            *map(self._operand, call.operands),
            *(f"size({self._integer(argument)})" for argument in call.arguments),
        ]
        return f"{self._known[key]}({', '.join(arguments)});"

    def _operand(self, operand: steps.Operand) -> str:
        if isinstance(operand, steps.LoopIndex):
            return f"[l{operand.loop}]"
        if isinstance(operand, steps.ValueRef):
            memory = self._plan.values[operand.value].memory
            if isinstance(memory, values.ViewMemory):
                return f"v{memory.state}.subarray(size(registers[{memory.register}]))"
            return f"v{operand.value}"
        table = self._plan.table(operand.table)
        if None not in (fixed := tuple(index.constant for index in operand.indices)):
            return f"w{dict(table.fixed)[fixed]}"
        indices = ", ".join(map(self._integer, operand.indices))
        return f"entry(table{table.number}, [{indices}], {[*table.starts]}, {[*table.extents]})"

    def _integer(self, index: Index) -> str:
        def combined(left: str, operator: str, right: str) -> str:
            return f'exact({left}, "{operator}", {right})'

        return integer_text(index, lambda value: f"({value}n)", self._named, combined)

    def _named(self, meaning: steps.LoopIndex | steps.ValueRef | steps.Register) -> str:
        if isinstance(meaning, steps.LoopIndex):
            return f"l{meaning.loop}"
        if isinstance(meaning, steps.Register):
            return f"registers[{meaning.number}]"
        dtype = self._plan.values[meaning.value].type.dtype
        return f"whole(BigInt({dtype}.load({self._operand(meaning)}, 0)))"

    def _call(self, step: steps.CallStep) -> str:
        call = f"p{self._numbers[step.procedure]}();"
        if step.condition is None:
            return call
        dtype = self._plan.values[step.condition].type.dtype
        other = "" if step.otherwise is None else f" else p{self._numbers[step.otherwise]}();"
        element = f"{dtype}.load({self._operand(steps.ValueRef(step.condition))}, 0)"
        return f"if (cast({dtype}, bool, {element})) {call}{other}"

    def _copied(self, output: int, source: str, count: Index | None) -> str:
        bits = self._plan.values[output].type.dtype.bits
        items = "" if count is None else f", items({bits}, {self._integer(count)})"
        return f"copy(v{output}, {source}{items});"

    def _filled(self, output: int, value: Scalar) -> str:
        type_ = self._plan.values[output].type
        return f"fill({type_.dtype}, v{output}, {type_.count}, {literal(type_.dtype, value)});"


def _extent(extent: int | steps.Register) -> str:
    return f"Number(registers[{extent.number}])" if isinstance(extent, steps.Register) else str(extent)
