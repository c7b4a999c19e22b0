"""`openinfer graph`: a program in another form."""

from __future__ import annotations

import click

from openinfer.cli.graph_argument import read_graph


@click.command(name="graph")
@click.argument("graph")
@click.option("--dsl", "form", flag_value="dsl", default=True, help="Print canonical program text (the default).")
@click.option("--json", "form", flag_value="json", help="Print graph JSON.")
def command(*, graph: str, form: str) -> None:
    """Print GRAPH (a .oi text, a .json graph, or -) as canonical text or JSON.

    The structure is not checked: `openinfer check` does that.
    """
    read = read_graph(graph)
    if form == "dsl":
        click.echo(read.to_dsl(), nl=False)
        return
    from openinfer.serialize import GraphSerialize

    click.echo(GraphSerialize.text(read), nl=False)
