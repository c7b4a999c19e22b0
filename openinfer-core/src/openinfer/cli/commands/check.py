"""`openinfer check`: every finding about a program, with carets or as JSON."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from openinfer.cli.findings import as_json
from openinfer.cli.graph_argument import read_program
from openinfer.cli.terminal import print_document, wants_colour, width_of
from openinfer.diagnostics import Diagnostic, Severity, as_errors, render
from openinfer.errors import DslSyntaxError, SerializationError

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command(name="check", short_help="Report everything that is wrong with a program.")
@click.argument("graph")
@click.option("--model", "-m", metavar="FILE", help="Check against this model too: sizes, types, operators.")
@click.option("--device", metavar="NAME", help="With a model: check that this device carries the program out too.")
@click.option("--strict", is_flag=True, help="Turn warnings into errors.")
@click.option("--json", "json_wanted", is_flag=True, help="Print a list of objects.")
@click.pass_context
def command(
    ctx: click.Context, *, graph: str, model: str | None, device: str | None, strict: bool, json_wanted: bool
) -> None:
    """Report everything that is wrong with GRAPH (a .oi text, a .json graph, or -); exit 1 on errors.

    The device of --device needs not be usable here. What it leaves to another one is a warning.
    """
    if device is not None and model is None:
        raise click.UsageError("--device needs --model: without sizes and types it cannot be told what a device runs")
    found = _findings(graph, model, device)
    findings = as_errors(found) if strict else found
    if json_wanted:
        print_document([as_json(finding) for finding in findings])
    else:
        _print(graph, findings)
        if model is None:
            click.echo("sizes and types were not checked: give a model with --model")
    if any(finding.severity is Severity.ERROR for finding in findings):
        ctx.exit(1)


def _findings(argument: str, model: str | None, device: str | None) -> Sequence[Diagnostic]:
    """Return the independent findings of every phase."""
    from openinfer.model import ModelLoader
    from openinfer.plugins.environment import Environment
    from openinfer.simulate.whole_program import plan_findings
    from openinfer.validate import checked_program, program_findings

    try:
        reading = read_program(argument)
        if model is None:
            return program_findings(reading)
        with ModelLoader.open(model) as opened:
            checked = checked_program(reading, model=opened, device=device)
            if device is None or checked.resolved is None:
                return checked.findings
            refused = plan_findings(checked.resolved, opened, device, Environment.default())
            return (*refused, *checked.findings)
    except (DslSyntaxError, SerializationError) as error:
        found = [finding for finding in error.diagnostics if isinstance(finding, Diagnostic)]
        if not found:
            raise
        return found


def _print(graph: str, findings: Sequence[Diagnostic]) -> None:
    colour = wants_colour(sys.stdout)
    for finding in findings:
        click.echo(render(finding, colour=colour, width=width_of(sys.stdout)), color=colour)
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    click.echo(f"{graph}: {_count(errors, 'error')}, {_count(len(findings) - errors, 'warning')}")


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"
