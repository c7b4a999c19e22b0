"""`openinfer plugins`: which plugins are installed, and what became of each."""

from __future__ import annotations

import json

import click

from openinfer.cli.terminal import table
from openinfer.plugins.environment import Environment, PluginInfo, Status


@click.command(name="plugins")
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects.")
def command(*, as_json: bool) -> None:
    """List the installed plugins with their state, and why one does not work."""
    plugins = Environment.default().plugins
    rows = [_fields(plugin) for plugin in plugins]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    header = ("name", "distribution", "version", "status", "reason")
    click.echo(table(header, [tuple(row.values()) for row in rows]))
    if any(plugin.status not in (Status.OK, Status.BLOCKED) for plugin in plugins):
        click.echo("\nTo keep a plugin out: openinfer --plugins-block NAME ..., or OPENINFER_PLUGINS_BLOCK=NAME")


def _fields(plugin: PluginInfo) -> dict[str, str]:
    return {
        "name": plugin.name,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "status": plugin.status.value,
        "reason": plugin.reason,
    }
