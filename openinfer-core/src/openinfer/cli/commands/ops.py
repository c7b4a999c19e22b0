"""`openinfer ops`: the operators, one in full, and what carries each out where."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

import click

from openinfer.cli.terminal import table
from openinfer.dtypes import DType
from openinfer.ops.schema import Composite, Elementwise, Primitive, Reduction, Required
from openinfer.plugins.environment import Environment

if TYPE_CHECKING:
    from openinfer.ops.schema import InputSpec, Operand, OpExample, OpSchema, SettingSpec
    from openinfer.plugins.coverage import Coverage


@click.command(name="ops")
@click.argument("name", required=False)
@click.option("--coverage", is_flag=True, help="Show what carries each operator out, by device, target and type.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects.")
def command(*, name: str | None, coverage: bool, as_json: bool) -> None:
    """List the operators; with NAME show one: signature, settings, formula."""
    environment = Environment.default()
    schemas = [environment.op(name)] if name else [schema for _, schema in sorted(environment.ops.items())]
    if coverage:
        _print_coverage(environment, schemas, as_json=as_json)
    elif as_json:
        click.echo(json.dumps([_as_json(environment, schema) for schema in schemas], indent=2))
    elif name:
        click.echo(_in_full(environment, schemas[0]))
    else:
        rows = [(schema.name, schema.category, _one_line(schema.summary)) for schema in schemas]
        click.echo(table(("name", "category", "summary"), rows))


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


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _in_full(environment: Environment, schema: OpSchema) -> str:
    lines = [signature(schema), f"  {_one_line(schema.summary)}", ""]
    lines += [_input_line(environment, spec) for spec in schema.inputs]
    lines += [_setting_line(spec) for spec in schema.settings]
    facts = {
        "types": _dtypes(environment, schema.dtypes),
        "category": schema.category,
        "defined": _DEFINITIONS[type(schema.definition)],
        "inputs": "broadcast against one another" if schema.broadcast else "",
        "in place": "an output may be one of the inputs" if schema.in_place else "",
        "aliases": ", ".join(schema.aliases),
        "ONNX": schema.onnx or "",
        "plugin": environment.providers[("op", schema.name)],
    }
    lines += [f"{what:<8} {fact}" for what, fact in facts.items() if fact]
    lines += [f"example  {_example(schema, example)}" for example in schema.examples]
    return "\n".join(lines)


def _input_line(environment: Environment, spec: InputSpec) -> str:
    return f"input    {_input(spec)}: {_dtypes(environment, spec.dtypes)}  {spec.doc}".rstrip()


def _setting_line(spec: SettingSpec) -> str:
    default = "required" if isinstance(spec.default, Required) else f"default {_value(spec.default)}"
    kind = " | ".join(f'"{choice}"' for choice in spec.choices) or spec.type.value
    aliases = f" (also {', '.join(spec.aliases)})" if spec.aliases else ""
    return f"setting  {spec.name}{aliases}: {kind}, {default}  {spec.doc}".rstrip()


def _example(schema: OpSchema, example: OpExample) -> str:
    """Return an example with types for names: ``T`` is any of the operator's."""
    last = len(schema.inputs) - 1
    specs = [schema.inputs[min(number, last)] for number in range(len(example.inputs))]
    given = [
        f"{spec.name + '=' if spec.optional else ''}{_operand(operand)}"
        for spec, operand in zip(specs, example.inputs, strict=True)
        if operand is not None
    ]
    settings = [f"{name}={_value(value)}" for name, value in example.settings.items()]
    outputs = "".join(f" >> {_operand(operand)}" for operand in example.outputs)
    return f"{schema.name}({', '.join([*given, *settings])}){outputs}"


def _operand(operand: Operand) -> str:
    return f"{operand.dtype or 'T'}[{','.join(map(str, operand.shape))}]"


def _dtypes(environment: Environment, names: frozenset[str] | None) -> str:
    if names is None:
        return "any of the operator's types"
    return " ".join(name for name in environment.dtypes if name in names)


_DEFINITIONS: dict[type[Any], str] = {
    Elementwise: "by a scalar expression: runs on every device and synth target with its types",
    Reduction: "by a fold of scalar expressions: runs on every device and synth target with its types",
    Composite: "by decomposition into other operators",
    Primitive: "by kernels only",
}


def _as_json(environment: Environment, schema: OpSchema) -> dict[str, Any]:
    return {
        "name": schema.name,
        "category": schema.category,
        "summary": _one_line(schema.summary),
        "signature": signature(schema),
        "inputs": [_input_json(spec) for spec in schema.inputs],
        "outputs": list(schema.outputs),
        "settings": [_setting_json(spec) for spec in schema.settings],
        "dtypes": [name for name in environment.dtypes if name in schema.dtypes],
        "definition": type(schema.definition).__name__.lower(),
        "broadcast": schema.broadcast,
        "in_place": schema.in_place,
        "aliases": list(schema.aliases),
        "onnx": schema.onnx,
        "plugin": environment.providers[("op", schema.name)],
    }


def _input_json(spec: InputSpec) -> dict[str, Any]:
    dtypes = None if spec.dtypes is None else sorted(spec.dtypes)
    return {"name": spec.name, "dtypes": dtypes, "optional": spec.optional, "variadic": spec.variadic, "doc": spec.doc}


def _setting_json(spec: SettingSpec) -> dict[str, Any]:
    required = isinstance(spec.default, Required)
    return {
        "name": spec.name,
        "type": spec.type.value,
        "required": required,
        "default": None if required else _plain(spec.default),
        "aliases": list(spec.aliases),
        "choices": list(spec.choices),
        "doc": spec.doc,
    }


def _plain(value: Any) -> Any:
    # JSON has no infinities; programs write them as words too.
    if isinstance(value, DType) or (isinstance(value, float) and value - value != 0):
        return str(value)
    return [_plain(part) for part in cast("tuple[Any, ...]", value)] if isinstance(value, tuple) else value


def _print_coverage(environment: Environment, schemas: list[OpSchema], *, as_json: bool) -> None:
    from openinfer.plugins.coverage import coverage

    found = list(coverage(environment, [schema.name for schema in schemas]))
    if as_json:
        fields = ("op", "dtype", "place", "target", "by", "reason")
        click.echo(json.dumps([{name: getattr(row, name) for name in fields} for row in found], indent=2))
        return
    rows = [(op, f"{place} {target}", by, " ".join(types)) for (op, place, target), by, types in _grouped(found)]
    click.echo(table(("name", "where", "by", "types"), rows))


def _grouped(found: list[Coverage]) -> list[tuple[tuple[str, str, str], str, list[str]]]:
    """Return one entry for each operator, place and way, with its element types."""
    groups: list[tuple[tuple[str, str, str], str, list[str]]] = []
    for key, cells in groupby(found, key=lambda cell: (cell.op, cell.place, cell.target)):
        ways: dict[str, list[str]] = {}
        for cell in cells:
            ways.setdefault(cell.by, []).append(cell.dtype)
        groups += [(key, by, types) for by, types in ways.items()]
    return groups
