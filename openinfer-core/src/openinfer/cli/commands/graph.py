"""`openinfer graph`: a program in another form, or as a picture."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from openinfer.cli.graph_argument import read_graph
from openinfer.cli.headings import HeadedCommand, option_under
from openinfer.cli.import_options import import_options
from openinfer.cli.program_argument import ProgramArgument, is_imported
from openinfer.cli.project_file import program_options_of
from openinfer.output_files import writing

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from openinfer.cli.import_options import ImportChoices
    from openinfer.ir.graph import Graph
    from openinfer.model import Model

_PICTURES = ("mermaid", "dot", "svg", "html")

_FILES = ("svg", "html")
"""Forms that nobody reads on a terminal."""

_FORMS = {
    "dsl": "Print canonical program text (the default).",
    "json": "Print graph JSON.",
    "mermaid": "Print a Mermaid flowchart.",
    "dot": "Print a picture in Graphviz's language.",
    "svg": "Print an SVG picture: memory, and blocks with their statements.",
    "html": "Print a page for a browser: one file that loads nothing.",
}


def _form_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for name, summary in reversed(_FORMS.items()):
        function = option_under("Form")(f"--{name}", is_flag=True, help=summary)(function)
    return function


@click.command(name="graph", cls=HeadedCommand, short_help="Print a program as text, as JSON, or as a picture.")
@click.argument("graph")
@_form_options
@click.option("--model", "-m", metavar="FILE", help="Show the shapes that the program has with this model (pictures).")
@click.option("--output", "-o", metavar="FILE", help="Write to FILE instead.")
@import_options()
def command(*, graph: str, model: str | None, output: str | None, choices: ImportChoices, **forms: bool) -> None:
    """Print GRAPH (a .oi text, a .json graph, or -) as canonical text, as JSON, or as a picture.

    The structure is not checked without a model: `openinfer check` does that. A GRAPH such as model.onnx is imported in
    passing.
    """
    wanted = [name for name in _FORMS if forms[name]]
    if len(wanted) > 1:
        raise click.UsageError(f"expected one form, found {' and '.join(f'--{name}' for name in wanted)}")
    form = wanted[0] if wanted else "dsl"
    if model is not None and form not in _PICTURES:
        raise click.UsageError(f"--model goes with --mermaid, --dot, --svg or --html, not with --{form}")
    if form in _FILES and output is None and sys.stdout.isatty():
        raise click.UsageError(f"--{form} is for another program than this terminal: add -o FILE.{form}")
    if model is None and form in _PICTURES and not is_imported(graph):
        model = program_options_of(graph).model
    program = ProgramArgument(graph=graph, model=model, choices=choices)
    if model is not None or is_imported(graph):
        with program.opened() as opened:
            text = _text(opened.graph, form, opened.model, title=graph)
    else:
        choices.refuse_for(graph)
        text = _text(read_graph(graph), form, None, title=graph)
    if output is None:
        click.echo(text, nl=False)
    else:
        with writing(output) as write:
            write(text.encode("utf-8"))


def _text(graph: Graph, form: str, model: Model | None, title: str) -> str:
    if form == "dsl":
        return graph.to_dsl()
    if form == "json":
        from openinfer.serialize import GraphSerialize

        return GraphSerialize.text(graph)
    from openinfer import draw
    from openinfer.validate import resolve

    resolved = None if model is None else resolve(graph, model)
    if form in _FILES:
        return (draw.html if form == "html" else draw.svg)(graph, resolved, title=title)
    return draw.dot(graph, resolved) if form == "dot" else draw.mermaid(graph, resolved)
