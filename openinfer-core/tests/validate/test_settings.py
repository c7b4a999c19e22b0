"""A setting that an operator does not take is marked at its value, whatever the operator."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
import pytest

from openinfer.diagnostics import Diagnostic, Severity
from openinfer.dsl import read_program
from openinfer.dtypes import BY_NAME, F32, DType
from openinfer.ir.types import TensorType
from openinfer.model import Model
from openinfer.ops.applying import call_of
from openinfer.ops.calls import OpCall
from openinfer.ops.examples import example_call
from openinfer.ops.schema import OpSchema, OpTypeError, SettingType
from openinfer.plugins.environment import Environment
from openinfer.validate import checked_program

MODEL = Model.from_arrays({"w": np.zeros(1, np.float32)})
WRONG = ("999", "-999", "2.5", '"zebra"', "[0, 0]", "[7, -8]", "[1, 2, 3, 4, 5]", "[]", "zebra", "[0, q]")
TYPES = ("f32", "i32", "i8", "u8", "bool", "t2")
SCHEMAS = [schema for schema in Environment.default().ops.values() if schema.settings]


def value_text(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(value_text, value))}]"
    if isinstance(value, bool | DType):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else repr(value)


def example_calls(schema: OpSchema) -> Iterator[OpCall]:
    """Yield the examples of an operator that a program can write, for one element type each."""
    for example in schema.examples:
        for name in TYPES:
            if name in (schema.dtypes if example.dtypes is None else example.dtypes):
                try:
                    call = example_call(schema, example, BY_NAME[name], BY_NAME)
                except OpTypeError:
                    continue
                given = {setting: call.settings[setting] for setting in example.settings}
                if None not in call.inputs:
                    yield OpCall(op=call.op, inputs=call.inputs, outputs=call.outputs, settings=given)
                    break


def plain_call(schema: OpSchema) -> OpCall:
    """Return a call of an elementwise operator, which has no examples."""
    given = tuple(TensorType(F32, (2, 3)) for spec in schema.inputs if not spec.optional)
    settings = {spec.name: F32 for spec in schema.settings if spec.type is SettingType.DTYPE}
    found = call_of(schema, given, settings)
    return OpCall(op=schema.name, inputs=given, outputs=found.outputs, settings=settings)


def program(schema: OpSchema, call: OpCall) -> tuple[str, list[str]]:
    """Return a program with one statement per line in which one setting is wrong, and those settings."""
    types = [*call.inputs, *call.outputs]
    declared = (f"  v{number}: {type_};" for number, type_ in enumerate(types))
    inputs = [f"v{number}" for number in range(len(call.inputs))]
    outputs = ", ".join(f"v{number}" for number in range(len(call.inputs), len(types)))
    statements: list[str] = []
    names: list[str] = []
    for spec in schema.settings:
        for wrong in WRONG:
            others = {name: value_text(value) for name, value in call.settings.items() if name != spec.name}
            settings = [f"{name}={text}" for name, text in {**others, spec.name: wrong}.items()]
            statements.append(f"  op {schema.name}({', '.join([*inputs, *settings])}) >> {outputs};")
            names.append(spec.name)
    return "\n".join(["volatile {", *declared, "}", "block entry {", *statements, "  return;", "}"]), names


def is_marked(finding: Diagnostic, start: int) -> bool:
    """Whether a finding or one of its notes marks something in the last setting of a line, which begins there."""
    spans = [finding.span, *(related.span for related in finding.related)]
    return any(
        span is not None and finding.span is not None and span.line == finding.span.line and start <= span.column - 1
        for span in spans
    )


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda schema: schema.name)
def test_a_wrong_value_is_marked(schema: OpSchema) -> None:
    calls = list(islice(example_calls(schema), 2)) or [plain_call(schema)]
    for call in calls:
        text, names = program(schema, call)
        lines = text.splitlines()
        first = lines.index("block entry {") + 2
        errors = [
            finding
            for finding in checked_program(read_program(text, name="p.oi"), model=MODEL).findings
            if finding.severity is Severity.ERROR
        ]
        assert errors
        for finding in errors:
            assert finding.span is not None
            line, name = lines[finding.span.line - 1], names[finding.span.line - first]
            is_about_result = finding.span.column > line.index(" >> ")
            marked = is_marked(finding, line.rindex(f"{name}=") + len(name) + 1)
            assert is_about_result or marked, f"{finding}\n{line}"
