"""What a notebook shows of an object: counts, tables, and texts folded up; no script, and everything escaped."""

from __future__ import annotations

from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from openinfer.draw.memory import memory_rows
from openinfer.draw.statements import elided, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.ir.graph import Graph
    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.model import Model

MAX_LINES = 200
"""Lines of a text that are shown; a notebook keeps every output in its file."""

MAX_ROWS = 100

_LEFT = ' style="text-align:left"'


class Table(NamedTuple):
    """Rows of plain text; ``what`` is how more of them than are shown are called."""

    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    what: str


class Folded(NamedTuple):
    """A plain text under a title to click on; program text is coloured."""

    title: str
    text: str
    is_program: bool = False


class Picture(NamedTuple):
    """A picture as SVG, whose own texts are escaped, under a title to click on; it is open at first."""

    title: str
    svg: str


def fragment(name: str, facts: str, *parts: Table | Folded | Picture) -> str:
    """Return what a notebook shows of an object: its name, what there is to know at once, tables, texts and pictures.

    Long tables and texts are cut, and say so.
    """
    return f"<div><b>{_text(name)}</b>: {_text(facts)}{''.join(map(_part, parts))}</div>"


def _part(part: Table | Folded | Picture) -> str:
    if isinstance(part, Picture):
        return f"<details open><summary>{_text(part.title)}</summary>{part.svg}</details>"
    return _table(part) if isinstance(part, Table) else _folded(part)


def notebook_html(graph: Graph, resolved: ResolvedGraph | None = None) -> str:
    """Return counts, a table of declarations, and the canonical text of a graph; `openinfer.draw.html` shows all of it.

    Args:
        resolved: the graph with its sizes, whose shapes are shown in place of the declared ones.
    """
    return fragment("Graph", graph.counts(), *graph_parts(graph, resolved))


def model_html(model: Model) -> str:
    """Return counts of a model, and tables of its sizes, metadata and tensors; no payload is read."""
    sizes = [(name, str(value)) for name, value in model.sizevars.items()]
    metadata = [(name, item.dtype, _brief(item.value)) for name, item in model.typed_metadata.items()]
    tensors = [
        (
            tensor.name,
            f"{tensor.dtype.name}{list(tensor.shape)}" if tensor.shape else tensor.dtype.name,
            f"{tensor.nbytes:,}{', quantised' if tensor.quantised else ''}" if tensor.has_data else "no data",
        )
        for tensor in model.tensors.values()
    ]
    return fragment(
        f"Model {model.name}",
        model.counts(),
        Table(("size", "value"), sizes, "sizes"),
        Table(("metadata", "type", "value"), metadata, "metadata"),
        Table(("tensor", "type", "bytes"), tensors, "tensors"),
    )


def _brief(value: object) -> str:
    """Return a value in a few words: an array as its shape."""
    shape = getattr(value, "shape", ())
    return f"array of shape {list(shape)}" if shape else elided(str(value))


def graph_parts(graph: Graph, resolved: ResolvedGraph | None = None) -> tuple[Table, Folded]:
    """Return the declarations and the text of a graph."""
    rows = [
        (kind.value, row.name + row.formals, row.type, row.attributes)
        for kind, found in memory_rows(graph, resolved).items()
        for row in found
    ]
    head = ("section", "name", "type", "attributes")
    return Table(head, rows, "declarations"), Folded("program", graph.to_dsl(), is_program=True)


def _table(table: Table) -> str:
    return "".join(_table_lines(table)) if table.rows else ""


def _table_lines(table: Table) -> Iterator[str]:
    yield f"<table><tr>{''.join(f'<th{_LEFT}>{_text(text)}</th>' for text in table.head)}</tr>"
    for row in table.rows[:MAX_ROWS]:
        yield f"<tr>{''.join(f'<td{_LEFT}>{_text(text)}</td>' for text in row)}</tr>"
    yield "</table>"
    if len(table.rows) > MAX_ROWS:
        yield f"<p>… and {len(table.rows) - MAX_ROWS} more {_text(table.what)}</p>"


def _folded(folded: Folded) -> str:
    lines = folded.text.splitlines()
    more = f"\n… and {len(lines) - MAX_LINES} more lines" if len(lines) > MAX_LINES else ""
    cut = "\n".join(map(shown, lines[:MAX_LINES]))
    text = _highlighted(cut) if folded.is_program else escape(cut, quote=True)
    return f"<details><summary>{_text(folded.title)}</summary><pre>{text}{more}</pre></details>"


def _highlighted(text: str) -> str:
    """Return program text as HTML, in colours where Pygments is installed, which notebooks bring."""
    try:
        pygments, lexers, formatters = map(import_module, ("pygments", "pygments.lexers", "pygments.formatters"))
    except ImportError:
        return escape(text, quote=True)
    try:
        lexer = lexers.get_lexer_by_name("openinfer", ensurenl=False, stripnl=False)
    except ValueError:  # Pygments' ClassNotFound: the package is imported, not installed
        return escape(text, quote=True)
    return pygments.highlight(text, lexer, formatters.HtmlFormatter(nowrap=True, noclasses=True)).rstrip("\n")


def _text(text: str) -> str:
    return escape(shown(text), quote=True)
