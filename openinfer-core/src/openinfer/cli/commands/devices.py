"""`openinfer devices`: which devices are known, whether each can be used here, and what to do if not."""

from __future__ import annotations

from typing import Any

import click

from openinfer.cli.diagnosis import left_to_another
from openinfer.cli.terminal import print_document, table
from openinfer.plugins.environment import Environment
from openinfer.plugins.probing import probe
from openinfer.plugins.types import DeviceSpec


@click.command(name="devices", short_help="List the devices, and what is missing for them.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects.")
@click.option("-v", "--verbose", is_flag=True, help="Print features, limits and memory of the hardware too.")
def command(*, as_json: bool, verbose: bool) -> None:
    """List the devices, and what is missing for one that is unavailable."""
    environment = Environment.default()
    specs = [spec for _, spec in sorted(environment.devices.items())]
    rows = [_row(environment, spec) for spec in specs]
    if as_json:
        print_document(rows)
        return
    if not rows:
        click.echo("no device: install a backend such as openinfer-backend-cpu, or see `openinfer plugins`")
        return
    left = [left_to_another(spec, environment) for spec in specs]
    cells = [
        (row["name"], "yes" if row["available"] else "no", row["plugin"], row["detail"] + addition)
        for row, addition in zip(rows, left, strict=True)
    ]
    click.echo(table(("name", "available", "plugin", "detail"), cells))
    for row in rows if verbose else ():
        for name, facts in row["hardware"].items():
            click.echo()
            click.echo(table((name, ""), [(fact, _shown(value)) for fact, value in facts.items()]))


def _shown(value: bool | int | str) -> str:
    """Return a fact as a person reads it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else value


def _row(environment: Environment, spec: DeviceSpec) -> dict[str, Any]:
    left = spec.fallback
    availability = probe(spec, environment.owner("device", spec.name))
    return {
        "name": spec.name,
        "summary": spec.summary,
        "available": availability.available,
        "detail": availability.detail,
        "fallback": None
        if left is None
        else {"device": left.device, "dtypes": None if left.dtypes is None else sorted(left.dtypes)},
        "plugin": environment.providers[("device", spec.name)],
        "hardware": {name: dict(facts) for name, facts in availability.hardware.items()},
    }
