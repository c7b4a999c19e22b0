"""A program as text for people: comments say which part of the model follows and what shape leaves it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from openinfer import symbolic
from openinfer.dtypes import DType
from openinfer.importers.onnx_files.elements import scalar_of
from openinfer.importers.onnx_files.naming import Names, legal, number_stem, value_stem, weight_stems
from openinfer.importers.onnx_files.values import Call, Value, expression
from openinfer.ir.strings import quoted
from openinfer.ir.text import scalar_text, type_text, value_text
from openinfer.ir.values import (
    AttrValue,
    BoolValue,
    DoubleListValue,
    DoubleValue,
    DTypeValue,
    ExprListValue,
    ExprValue,
    IntListValue,
    IntValue,
    Ref,
    StrValue,
    VarValue,
)
from openinfer.symbolic import BinOp, Const, Name
from openinfer_oinf.convert.naming import plain_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.importers.onnx_files.source import Payload
    from openinfer.importers.onnx_files.values import Program, Setting
    from openinfer.plugins.environment import Environment
    from openinfer.scalars import Scalar

MOST_UNIFORM = 4096
"""Elements of the largest constant that is checked for being one number all over."""

_HEAVY = (
    "conv1d",
    "conv2d",
    "conv_transpose2d",
    "linear",
    "matmul",
    "sdpa",
    "attn",
    "qmatmul",
    "lstm_cell",
    "gru_cell",
)


@dataclass(slots=True)
class Printed:
    """Program text, and what it needs.

    Attributes:
        weights: payloads by their names in the container.
        values: names in the program by names in the model.
    """

    text: str
    weights: dict[str, Payload] = field(default_factory=dict[str, "Payload"])
    inputs: dict[str, str] = field(default_factory=dict[str, str])
    outputs: dict[str, str] = field(default_factory=dict[str, str])
    values: dict[str, str] = field(default_factory=dict[str, str])


def printed(program: Program, environment: Environment, title: str) -> Printed:
    """Return the text of a program."""
    return _Printer(program, environment).printed(title)


class _Printer:
    def __init__(self, program: Program, environment: Environment) -> None:
        self._program = program
        self._environment = environment
        self._names = Names(program.sizes)
        self._of: dict[int, str] = {}
        self._constants: list[str] = []
        self._numbers: dict[tuple[str, str, tuple[int, ...]], str] = {}
        self._result = Printed("")
        self._stems: dict[str, str] = {}

    def printed(self, title: str) -> Printed:
        program, result = self._program, self._result
        dynamic = [self._input(value) for value in program.inputs]
        outputs = self._name_outputs()
        self._name_constants()
        body = list(self._statements())
        volatile = [f"  {name}: {type_text(value.dtype, value.dims)};" for name, value, _ in outputs]
        body += [f"  transfer {self._ref(value)} >> {name};" for name, value, is_copy in outputs if is_copy]
        names = ", ".join(name for name, _, _ in outputs)
        sections = [
            "\n".join(self._heading(title)),
            _section("dynamic", dynamic),
            _section("constant", self._constants),
            _section("volatile", volatile),
            "\n".join(["block entry {", *body, f"  return {names};", "}"]),
        ]
        result.text = "\n\n".join(filter(None, sections)) + "\n"
        return result

    def _heading(self, title: str) -> Iterator[str]:
        yield f"// {_comment(title)}"
        for name in self._program.sizes:
            origin = self._program.origins.get(name)
            if origin:
                yield f"// The size {name} is {_comment(quoted(origin))} in the model."

    def _input(self, value: Value) -> str:
        name = self._names.new(legal(value.name, "x"))
        self._of[id(value)] = name
        self._result.inputs[value.name] = name
        note = "" if name == value.name else f"  // {_comment(quoted(value.name))}"
        return f"  {name}: {type_text(value.dtype, value.dims)};{note}"

    def _name_outputs(self) -> list[tuple[str, Value, bool]]:
        """Name outputs; return each with its value, and whether that has to be copied there."""
        written = {id(value) for call in self._program.calls for value in call.outputs}
        found: list[tuple[str, Value, bool]] = []
        for name, value in self._program.outputs:
            own = self._names.new(legal(name, "y"))
            self._result.outputs[name] = own
            is_copy = id(value) not in written or id(value) in self._of
            if not is_copy:
                self._of[id(value)] = own
                self._result.values[name] = own
            found.append((own, value, is_copy))
        return found

    def _name_constants(self) -> None:
        values = [value for call in self._program.calls for value in call.reads()]
        values += [value for _, value in self._program.outputs]
        weights = [v.name for v in {id(v): v for v in values}.values() if v.payload is not None and v.name]
        self._stems = weight_stems(list(dict.fromkeys(weights)))

    # Constants

    def _ref(self, value: Value) -> str:
        found = self._of.get(id(value))
        if found is None:
            found = self._of[id(value)] = self._constant(value, value.known)
        return found

    def _constant(self, value: Value, payload: Payload) -> str:
        number = _uniform(payload)
        kind = type_text(value.dtype, value.dims)
        if number is not None:
            text = scalar_text(value.dtype, number)
            key = (value.dtype.name, text, payload.shape)
            if key not in self._numbers:
                name = self._numbers[key] = self._names.new(self._number_stem(value, number))
                self._constants.append(f"  {name}: {kind} @init({text});")
            return self._numbers[key]
        stem = self._stems.get(value.name, "")
        name = self._names.new(legal(stem, "table"))
        stored = plain_name(value.name) or name
        while stored in self._result.weights or not stored.strip("._-"):
            stored = f"{stored}_{name}"
        self._result.weights[stored] = payload
        link = "" if stored == name else f" @ref({quoted(stored)})"
        note = "" if stored == value.name or not value.name else f"  // {_comment(quoted(value.name))}"
        self._constants.append(f"  {name}: {kind}{link};{note}")
        return name

    def _number_stem(self, value: Value, number: Scalar) -> str:
        if value.rank and value.name:
            return legal(self._stems.get(value.name, ""), "numbers")
        return number_stem(number)

    # Statements

    def _statements(self) -> Iterator[str]:
        calls = self._program.calls
        start = 0
        while start < len(calls):
            end = _stage_end(calls, start)
            last = calls[end - 1].outputs[0]
            label = calls[start].stage or _label(calls[start:end])
            shape = ", ".join(map(symbolic.text, last.dims))
            if start:
                yield ""
            yield f"  // {_comment(label)} >> [{shape}]"
            for call in calls[start:end]:
                yield from self._call(call)
            start = end

    def _call(self, call: Call) -> Iterator[str]:
        schema = self._environment.op(call.op)
        arguments: list[str] = []
        named: list[str] = []
        for position, value in enumerate(call.inputs):
            spec = schema.inputs[min(position, len(schema.inputs) - 1)]
            if value is None:
                continue
            if spec.optional:
                named.append(f"{spec.name}={self._ref(value)}")
            else:
                arguments.append(self._ref(value))
        settings = [f"{name}={self._setting(value)}" for name, value in call.settings.items()]
        targets = [self._target(value, call.op) for value in call.outputs]
        declared = {*self._result.outputs.values()}
        if call.declared:
            for name, value in zip(targets, call.outputs, strict=True):
                if name not in declared:
                    yield f"  assign {name}: {type_text(value.dtype, value.dims)};"
        yield f"  op {call.op}({', '.join([*arguments, *named, *settings])}) >> {', '.join(targets)};"

    def _target(self, value: Value, op: str) -> str:
        if id(value) not in self._of:
            self._of[id(value)] = self._names.new(value_stem(value.name, op))
            if value.name:
                self._result.values[value.name] = self._of[id(value)]
        return self._of[id(value)]

    def _setting(self, value: Setting) -> str:
        if isinstance(value, Value):
            return self._ref(value)
        return value_text(_attribute(value))


def _attribute(value: Setting) -> AttrValue:
    match value:
        case bool():
            return BoolValue(value)
        case int():
            return IntValue(value)
        case float():
            return DoubleValue(value)
        case str():
            return StrValue(value)
        case DType():
            return DTypeValue(value)
        case Name():
            return VarValue(Ref(value.name))
        case Const():
            return IntValue(value.value)
        case BinOp():
            return ExprValue(value)
        case tuple():
            return _list(value)
        case Value():
            raise TypeError(value.name)


def _list(values: Sequence[int | float | symbolic.IntExpr]) -> AttrValue:
    if any(isinstance(part, float) for part in values):
        return DoubleListValue(tuple(float(part) for part in values if isinstance(part, int | float)))
    numbers = tuple(part for part in values if isinstance(part, int))
    if len(numbers) == len(values):
        return IntListValue(numbers)
    return ExprListValue(tuple(expression(part) for part in values if not isinstance(part, float)))


def _section(keyword: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{keyword} {{", *lines, "}"]) if lines else ""


def _uniform(payload: Payload) -> Scalar | None:
    """Return the number that a constant is all over; None where it is not, or is large."""
    if not 1 <= payload.count <= MOST_UNIFORM:
        return None
    array = payload.load().reshape(-1)
    first = scalar_of(array[:1], payload.dtype)
    if isinstance(first, float) and (math.isnan(first) or (not first and math.copysign(1, first) < 0)):
        return None
    return first if bool(np.all(array == array[0])) else None


def _stage_end(calls: Sequence[Call], start: int) -> int:
    """Return where a stage ends: with the module that the model names, or before the next heavy operator."""
    end = start + 1
    stage = calls[start].stage
    while end < len(calls) and calls[end].stage == stage:
        if not stage and calls[end].op in _HEAVY:
            break
        end += 1
    return end


def _label(calls: Sequence[Call]) -> str:
    ops = list(dict.fromkeys(call.op for call in calls))
    return ", ".join(ops[:4]) + (", ..." if len(ops) > 4 else "")


def _comment(text: str) -> str:
    """Return text that cannot end a comment, on one line."""
    return "".join(character if character.isprintable() else "?" for character in text)
