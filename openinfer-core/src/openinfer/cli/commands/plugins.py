"""`openinfer plugins`: which plugins are installed, and what became of each; `plugins new` writes one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from openinfer.cli.terminal import print_document, table
from openinfer.diagnostics import did_you_mean, printable
from openinfer.plugins import switches
from openinfer.plugins.environment import Environment, PluginInfo, Status

if TYPE_CHECKING:
    from collections.abc import Iterator


@click.group(name="plugins", short_help="List the installed plugins with their state.", invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print a list of objects.")
@click.pass_context
def command(context: click.Context, *, as_json: bool) -> None:
    """List the installed plugins with their state, and why one does not work.

    `openinfer plugins new` writes the package of a plugin.
    """
    if context.invoked_subcommand is not None:
        return
    environment = Environment.default()
    plugins = environment.plugins
    for problem in switches.unmatched(switches.from_variables(os.environ), environment).values():
        click.echo(printable(problem), err=True)
    rows = [_fields(plugin) for plugin in plugins]
    options = list(_options(environment))
    if as_json:
        print_document(
            [{**row, "options": [option for option in options if option["plugin"] == row["name"]]} for row in rows]
        )
        return
    header = ("name", "distribution", "version", "status", "reason")
    click.echo(table(header, [tuple(row.values()) for row in rows]))
    if options:
        cells = [
            (f"{option['part']}.{option['option']}", str(option["value"]), option["summary"]) for option in options
        ]
        click.echo(f"\n{table(('option', 'value', 'what it does'), cells)}")
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


def _options(environment: Environment) -> Iterator[dict[str, Any]]:
    """Yield the options of passes and observers, with the values that they have."""
    for noun, specs in (("pass", environment.passes), ("observer", environment.observers)):
        for spec in specs.values():
            part = {"plugin": environment.owner(noun, spec.name).plugin, "part": spec.name}
            for option in spec.options:
                yield {**part, "option": option.name, "value": option.value, "summary": option.summary}


def _list_kinds(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from openinfer.cli.skeletons import kinds

        click.echo(table(("kind", "what it adds"), [(name, kind.summary) for name, kind in kinds().items()]))
        context.exit()


@command.command(name="new", short_help="Write the package of a plugin.")
@click.argument("name")
@click.option("--kind", "chosen", multiple=True, required=True, metavar="KIND", help="What it offers; repeatable.")
@click.option("-o", "--output", "folder", default=".", metavar="DIR", help="Folder for the folder NAME (.).")
@click.option(
    "--list", is_flag=True, is_eager=True, expose_value=False, callback=_list_kinds, help="List the kinds and stop."
)
def new(*, name: str, chosen: tuple[str, ...], folder: str) -> None:
    """Write a package NAME that offers an example of each KIND, with tests and a tox.ini that runs the conformance kit.

    It builds, installs and passes its tests as it is: change the examples into parts of your own.

    \b
    openinfer plugins new --list
    openinfer plugins new acme-tools --kind elementwise --kind observer
    """
    from openinfer.cli.skeletons import kinds, package
    from openinfer_oinf.installing import quoted

    skeletons = kinds()
    for kind in chosen:
        if kind not in skeletons:
            hint = did_you_mean(kind, skeletons) or f"the kinds are {', '.join(skeletons)}"
            raise click.UsageError(f"unknown kind {kind!r}: {hint}")
    target = Path(folder) / name
    texts = package(name, [skeletons[kind] for kind in dict.fromkeys(chosen)])
    # A folder that is there may hold work of the user.
    target.mkdir(parents=True)
    for path, text in texts.items():
        file = target / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="\n")
        click.echo(printable(str(file)))
    click.echo()
    click.echo(printable(f"next: pip install -e {quoted(f'{target}[test]')}, then pytest {quoted(str(target))}"))
