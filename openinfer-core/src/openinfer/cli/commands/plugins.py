"""`openinfer plugins`: which plugins are installed, and what became of each."""

from __future__ import annotations

import os

import click

from openinfer.cli.terminal import print_document, table
from openinfer.diagnostics import did_you_mean, printable
from openinfer.plugins import switches
from openinfer.plugins.environment import Environment, PluginInfo, Status


@click.command(name="plugins", short_help="List the installed plugins with their state.")
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects.")
def command(*, as_json: bool) -> None:
    """List the installed plugins with their state, and why one does not work."""
    plugins = Environment.default().plugins
    _warn_of_unmatched(plugins)
    rows = [_fields(plugin) for plugin in plugins]
    if as_json:
        print_document(rows)
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


def _warn_of_unmatched(plugins: tuple[PluginInfo, ...]) -> None:
    for name in switches.unmatched(switches.from_variables(os.environ), plugins):
        hint = did_you_mean(name, [plugin.name for plugin in plugins]) or "it has no effect"
        click.echo(printable(f"a switch names the plugin {name!r}, which is not installed: {hint}"), err=True)
