"""Operators as text: the call in a program, what a schema says, and pages for the documentation."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any, cast

from openinfer.cli.operator_values import value_example
from openinfer.errors import PluginError
from openinfer.ops.counting import COUNT
from openinfer.ops.examples import example_call
from openinfer.ops.schema import (
    Composite,
    Compute,
    Elementwise,
    Loops,
    Operand,
    OpExample,
    OpTypeError,
    Primitive,
    Reduction,
    Required,
)
from openinfer.plugins.crossing import PluginWarning

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openinfer.ops.schema import InputSpec, OpSchema, SettingSpec
    from openinfer.plugins.environment import Environment


def signature(schema: OpSchema) -> str:
    """Return an operator as it is called in a program: ``?`` marks optional inputs, ``...`` repeated ones."""
    settings = [f"{s.name}={'…' if isinstance(s.default, Required) else _value(s.default)}" for s in schema.settings]
    inputs = [_input(spec) for spec in schema.inputs]
    outputs = ", ".join(schema.outputs) + ("..." if schema.variadic_outputs else "")
    return f"op {schema.name}({', '.join([*inputs, *settings])}) >> {outputs};"


def _input(spec: InputSpec) -> str:
    return f"{spec.name}{'?' if spec.optional else ''}{'...' if spec.variadic else ''}"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value, cast('tuple[Any, ...]', value)))}]"
    return "none" if value is None else str(value)


def one_line(text: str) -> str:
    """Return text without line ends."""
    return " ".join(text.split())


def in_full(environment: Environment, schema: OpSchema) -> str:
    """Return an operator with everything that its schema says, for a terminal."""
    lines = [signature(schema), f"  {one_line(schema.summary)}", ""]
    lines += [_input_line(environment, spec) for spec in schema.inputs]
    lines += [_setting_line(spec) for spec in schema.settings]
    facts = {
        "types T": _dtypes(environment, schema.dtypes),
        "category": schema.category,
        "defined": definition(schema),
        "inputs": "broadcast against one another" if schema.broadcast else "",
        "counted": _counted(schema, ""),
        "in place": "an output may be one of the inputs" if schema.in_place else "",
        "aliases": ", ".join(schema.aliases),
        "ONNX": schema.onnx or "",
        "plugin": environment.providers[("op", schema.name)],
    }
    lines += [f"{what:<8} {fact}" for what, fact in facts.items() if fact]
    lines += [f"example  {text}" for text in _examples(environment, schema)]
    lines += [f"numbers  {text}" for text in value_example(environment, schema, schema.examples or _plain(schema))]
    return "\n".join(lines)


def _counted(schema: OpSchema, quote: str) -> str:
    """Return which results have as many rows as the operator counts; "" for none."""
    *others, last = [f"{quote}{name}{quote}" for name in schema.counted] or [""]
    names = f"{', '.join(others)} and {last} have" if others else f"{last} has"
    return f"{names} as many rows as {quote}{schema.outputs[COUNT]}{quote} says" if schema.counted else ""


def _input_line(environment: Environment, spec: InputSpec) -> str:
    return f"input    {_input(spec)}: {_types_of(environment, spec)}  {spec.doc}".rstrip()


def _setting_line(spec: SettingSpec) -> str:
    default = "required" if isinstance(spec.default, Required) else f"default {_value(spec.default)}"
    kind = " | ".join(f'"{choice}"' for choice in spec.choices) or spec.type.value
    aliases = f" (also {', '.join(spec.aliases)})" if spec.aliases else ""
    return f"setting  {spec.name}{aliases}: {kind}, {default}  {spec.doc}".rstrip()


def _example(environment: Environment, schema: OpSchema, example: OpExample) -> str:
    """Return an example with types for names: ``T`` is any of the operator's."""
    last = len(schema.inputs) - 1
    specs = [schema.inputs[min(number, last)] for number in range(len(example.inputs))]
    given = [
        f"{spec.name + '=' if spec.optional else ''}{_operand(operand)}"
        for spec, operand in zip(specs, example.inputs, strict=True)
        if operand is not None
    ]
    settings = [f"{name}={_value(value)}" for name, value in example.settings.items()]
    return f"{schema.name}({', '.join([*given, *settings])}){_results(environment, schema, example)}"


def _results(environment: Environment, schema: OpSchema, example: OpExample) -> str:
    """Return the types of an example's results, where ``T`` is that of its inputs whatever it is.

    Nothing for an example that the operator does not take: that is for the conformance kit to report.
    """
    names = schema.dtypes if example.dtypes is None else example.dtypes
    dtypes = [dtype for name, dtype in environment.dtypes.items() if name in names]
    try:
        found = [example_call(schema, example, dtype, environment.dtypes).outputs for dtype in dtypes]
    except OpTypeError:
        return ""
    except PluginError as error:
        warnings.warn(f"{error}; the results of its examples are left out", PluginWarning, stacklevel=2)
        return ""
    texts: list[str] = []
    for results in zip(*found, strict=True):
        same = all(result.dtype is dtype for result, dtype in zip(results, dtypes, strict=True))
        kinds = dict.fromkeys("T" if same else str(result.dtype) for result in results)
        texts.append(f"{' or '.join(kinds)}[{','.join(map(str, results[0].shape))}]")
    return f" >> {', '.join(texts)}"


def _shown(environment: Environment, schema: OpSchema) -> dict[str, frozenset[str] | None]:
    """Return the examples that are shown, with what T may be there: of those that differ in types alone, the first."""
    forms: dict[str, str] = {}
    types: dict[str, frozenset[str] | None] = {}
    for example in schema.examples or _plain(schema):
        text = _example(environment, schema, example)
        forms.setdefault(re.sub(r"\w+(?=\[)", "", text), text)
        before = types.get(text, example.dtypes)
        types[text] = None if before is None or example.dtypes is None else before | example.dtypes
    return {text: types[text] for text in [*forms.values()][:_MOST_EXAMPLES]}


def _plain(schema: OpSchema) -> tuple[OpExample, ...]:
    """Return the call of an elementwise operator with its inputs alone, where it needs nothing else."""
    needs_more = any(isinstance(spec.default, Required) for spec in schema.settings)
    if needs_more or not isinstance(schema.definition, Elementwise):
        return ()
    alone = (spec.dtypes if spec.dtypes and len(spec.dtypes) == 1 else () for spec in schema.inputs)
    return (OpExample(inputs=tuple(Operand(shape=(2, 3), dtype=next(iter(names), None)) for names in alone)),)


def _examples(environment: Environment, schema: OpSchema) -> Iterator[str]:
    """Yield the examples that are shown, each with what T may be there if not all of the operator's types."""
    for text, types in _shown(environment, schema).items():
        yield text if types is None else f"{text}  T: {_dtypes(environment, types)}"


def _operand(operand: Operand) -> str:
    return f"{operand.dtype or 'T'}[{','.join(map(str, operand.shape))}]"


def _types_of(environment: Environment, spec: InputSpec) -> str:
    return "T" if spec.dtypes is None else _dtypes(environment, spec.dtypes)


def _dtypes(environment: Environment, names: frozenset[str]) -> str:
    return " ".join(name for name in environment.dtypes if name in names)


_MOST_EXAMPLES = 8
"""Examples that are shown; some operators have one for each type that needs another accumulator."""


def definition(schema: OpSchema) -> str:
    """Return how an operator is defined, and so where it runs."""
    text = _DEFINITIONS[type(schema.definition)]
    refusal = schema.definition.refusal if isinstance(schema.definition, Elementwise) else None
    return text if refusal is None else f"{text}; by stages or kernels where elements are errors ({refusal.rule})"


_DEFINITIONS: dict[type[Any], str] = {
    Elementwise: "by a scalar expression: runs on every device and synth target with its types",
    Reduction: "by a fold of scalar expressions: runs on every device and synth target with its types",
    Composite: "by decomposition into other operators",
    Compute: "by stages over index space: runs on devices and synth targets that support them",
    Loops: "by a loop program: runs on devices and synth targets that support them",
    Primitive: "by kernels only",
}


def page(environment: Environment, schema: OpSchema) -> str:
    """Return the reference page of an operator as Markdown."""
    return "\n".join([*_head(schema), *_signature_tables(environment, schema), *_facts(environment, schema)]) + "\n"


def index(environment: Environment) -> str:
    """Return the page that lists all operators by family, as Markdown."""
    lines = [
        "# Operators",
        "",
        "One page an operator, made from its schema by `openinfer ops --markdown FOLDER`. `openinfer ops NAME` shows",
        "the same in the terminal, `openinfer ops --coverage` what carries each out, by device, target and type.",
    ]
    for category in dict.fromkeys(sorted(schema.category for schema in environment.ops.values())):
        lines += ["", f"## {category.capitalize()}", "", "| operator | |", "|---|---|"]
        family = sorted(name for name, schema in environment.ops.items() if schema.category == category)
        lines += [f"| [{name}]({name}.md) | {_cell(one_line(environment.ops[name].summary))} |" for name in family]
    return "\n".join(lines) + "\n"


def _head(schema: OpSchema) -> Iterator[str]:
    yield f"# {schema.name}"
    yield ""
    yield f"{one_line(schema.summary)}."
    yield ""
    yield "```text"
    yield signature(schema)
    yield "```"
    yield ""


def _signature_tables(environment: Environment, schema: OpSchema) -> Iterator[str]:
    if schema.inputs:
        yield from ("| input | types | |", "|---|---|---|")
        for spec in schema.inputs:
            yield f"| `{_input(spec)}` | {_types_of(environment, spec)} | {_cell(spec.doc)} |"
        yield ""
    if schema.settings:
        yield from ("| setting | takes | default | |", "|---|---|---|---|")
        for spec in schema.settings:
            kind = " or ".join(f'`"{choice}"`' for choice in spec.choices) or spec.type.value
            default = "required" if isinstance(spec.default, Required) else f"`{_value(spec.default)}`"
            names = ", ".join(f"`{name}`" for name in (spec.name, *spec.aliases))
            yield f"| {names} | {kind} | {default} | {_cell(spec.doc)} |"
        yield ""


def _onnx_link(name: str) -> str:
    page = re.split(r"\W", name, maxsplit=1)[0]
    return f"[{name}](https://onnx.ai/onnx/operators/onnx__{page}.html)"


def _facts(environment: Environment, schema: OpSchema) -> Iterator[str]:
    yield f"* T is one of: {_dtypes(environment, schema.dtypes)}."
    yield f"* Defined {definition(schema)}."
    if schema.broadcast:
        yield "* Inputs broadcast against one another: dims are aligned at the right, and a dim of 1 stretches."
    if schema.counted:
        yield f"* Counted: {_counted(schema, '`')}; below are the most."
    yield f"* In place: {'an output may be one of the inputs' if schema.in_place else 'no output may be an input'}."
    if schema.aliases:
        yield f"* Also called: {', '.join(f'`{alias}`' for alias in schema.aliases)}."
    if schema.onnx is not None:
        links = [_onnx_link(name) for name in schema.onnx.split(", ")]
        yield f"* Nearest ONNX operator{'s' if len(links) > 1 else ''}: {', '.join(links)}."
    examples = [*_examples(environment, schema)]
    if examples:
        yield ""
        yield "Examples, with types in place of names; T is any type above unless the line ends with others:"
        yield ""
        yield from ("```text", *examples, "```")
    values = value_example(environment, schema, schema.examples or _plain(schema))
    if values:
        yield ""
        yield "One call with numbers:"
        yield ""
        yield from ("```text", *values, "```")


def _cell(text: str) -> str:
    """Return text as it is printed in a table."""
    return text.replace("|", "\\|")
