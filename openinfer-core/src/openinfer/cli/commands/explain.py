"""`openinfer explain`: what the code of a finding means, with an example."""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

from openinfer.cli.explanations import codes, explanation, format_codes, plugin_codes
from openinfer.cli.terminal import print_document, table, wants_colour, width_of


@click.command(name="explain", short_help="Explain the code of an error or warning.")
@click.argument("code", required=False)
@click.option("--list", "list_wanted", is_flag=True, help="List all codes.")
@click.option("--markdown", is_flag=True, help="Print the page of all codes that the documentation shows.")
@click.option("--json", "json_wanted", is_flag=True, help="Print an object, or with --list a list of them.")
def command(*, code: str | None, list_wanted: bool, markdown: bool, json_wanted: bool) -> None:
    """Say what CODE means, such as unknown-variable: the word in brackets after `error` or `warning`."""
    if sum((code is not None, list_wanted, markdown)) != 1:
        raise click.UsageError("expected one of CODE, --list and --markdown")
    if markdown and json_wanted:
        raise click.UsageError("--json goes with CODE or --list, not with --markdown")
    if markdown:
        from openinfer.cli.explanations.pages import error_index

        click.echo(error_index(), nl=False)
    elif code is None:
        _list(json_wanted=json_wanted)
    else:
        _explain(code, json_wanted=json_wanted)


def _list(*, json_wanted: bool) -> None:
    explanations = [explanation(code) for code in dict.fromkeys([*codes(), *format_codes(), *plugin_codes()])]
    if json_wanted:
        print_document([{"code": one.code, "phase": one.phase.value} for one in explanations])
        return
    click.echo(table(("code", "found"), [(one.code, one.phase.title) for one in explanations]))


def _explain(code: str, *, json_wanted: bool) -> None:
    explained = explanation(code)
    if json_wanted:
        print_document({**asdict(explained), "phase": explained.phase.value})
        return
    from openinfer.cli.explanations.pages import terminal_text

    colour = wants_colour(sys.stdout)
    click.echo(terminal_text(explained, colour=colour, width=width_of(sys.stdout)), nl=False, color=colour)
