"""`openinfer devices`: which devices are known, whether each can be used here, and what to do if not."""

from __future__ import annotations

import json

import click

from openinfer.cli.terminal import table
from openinfer.plugins.environment import Environment
from openinfer.plugins.probing import probe
from openinfer.plugins.types import DeviceSpec


@click.command(name="devices", short_help="List the devices, and what is missing for them.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects.")
def command(*, as_json: bool) -> None:
    """List the devices, and what is missing for one that is unavailable."""
    environment = Environment.default()
    rows = [_row(environment, spec) for _, spec in sorted(environment.devices.items())]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    if not rows:
        click.echo("no device: install a backend such as openinfer-backend-cpu, or see `openinfer plugins`")
        return
    cells = [(row["name"], "yes" if row["available"] else "no", row["plugin"], row["detail"]) for row in rows]
    click.echo(table(("name", "available", "plugin", "detail"), [tuple(map(str, row)) for row in cells]))


def _row(environment: Environment, spec: DeviceSpec) -> dict[str, str | bool]:
    availability = probe(spec)
    return {
        "name": spec.name,
        "summary": spec.summary,
        "available": availability.available,
        "detail": availability.detail,
        "plugin": environment.providers[("device", spec.name)],
    }
