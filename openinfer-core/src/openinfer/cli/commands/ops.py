"""`openinfer ops`: lists operators, describes one, and shows how each device and target computes them."""

from __future__ import annotations

import errno
import pathlib
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

import click

from openinfer.cli.operator_text import in_full, index, one_line, page, signature
from openinfer.cli.terminal import print_document, table
from openinfer.dtypes import DType
from openinfer.ops.schema import Required
from openinfer.output_files import writing
from openinfer.plugins.environment import Environment

if TYPE_CHECKING:
    from pathlib import Path

    from openinfer.ops.schema import InputSpec, OpSchema, SettingSpec
    from openinfer.plugins.coverage import Coverage


@click.command(name="ops", short_help="List the operators, or show one.")
@click.argument("name", required=False)
@click.option("--coverage", is_flag=True, help="Show how each operator is implemented, by device, target and type.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects.")
@click.option(
    "--markdown",
    metavar="FOLDER",
    type=click.Path(path_type=pathlib.Path),
    help="Write a reference page for each operator, and an index of all, into a folder.",
)
def command(*, name: str | None, coverage: bool, as_json: bool, markdown: Path | None) -> None:
    """List the operators; with NAME show one: signature, settings, formula, examples."""
    if markdown is not None and (coverage or as_json):
        raise click.UsageError("--markdown writes pages alone: leave --coverage and --json out")
    environment = Environment.default()
    schemas = [environment.op(name)] if name else [schema for _, schema in sorted(environment.ops.items())]
    if markdown is not None:
        _write_pages(environment, schemas, markdown, whole=name is None)
    elif coverage:
        _print_coverage(environment, schemas, as_json=as_json)
    elif as_json:
        print_document([_as_json(environment, schema) for schema in schemas])
    elif name:
        click.echo(in_full(environment, schemas[0]))
    else:
        rows = [(schema.name, schema.category, one_line(schema.summary)) for schema in schemas]
        click.echo(table(("name", "category", "summary"), rows))


def _write_pages(environment: Environment, schemas: list[OpSchema], folder: Path, *, whole: bool) -> None:
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "expected a folder, found a file", str(folder))
    folder.mkdir(parents=True, exist_ok=True)
    pages = {schema.name: page(environment, schema) for schema in schemas}
    for name, text in {**pages, **({"README": index(environment)} if whole else {})}.items():
        with writing(folder / f"{name}.md") as write:
            write(text.encode("utf-8"))


def _as_json(environment: Environment, schema: OpSchema) -> dict[str, Any]:
    return {
        "name": schema.name,
        "category": schema.category,
        "summary": one_line(schema.summary),
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
        print_document([{name: getattr(row, name) for name in fields} for row in found])
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
