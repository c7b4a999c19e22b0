"""What a notebook shows of a graph: its declarations in a table, its text in colours, everything escaped."""

from __future__ import annotations

from html import escape
from importlib import import_module
from typing import TYPE_CHECKING

from openinfer.draw.memory import memory_rows
from openinfer.draw.statements import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openinfer.ir.graph import Graph

MAX_LINES = 200
"""Lines of program text that are shown; a notebook keeps every output in its file."""

MAX_DECLARATIONS = 100


def notebook_html(graph: Graph) -> str:
    """Return a fragment of HTML without script: counts, a table of declarations, and the canonical text folded up.

    Long programs are cut, and say so: `openinfer.draw.html` shows all of one.
    """
    nodes = sum(1 for _ in graph.nodes())
    head = f"<b>Graph</b>: {_count(len(graph.vars), 'variable')}, {_count(len(graph.blocks), 'block')}, "
    return f"<div>{head}{_count(nodes, 'node')}{''.join(_table(graph))}{_listing(graph)}</div>"


def _table(graph: Graph) -> Iterator[str]:
    rows = [(kind.value, row) for kind, found in memory_rows(graph).items() for row in found]
    if not rows:
        return
    cell = '<td style="text-align:left">'
    yield '<table><tr><th style="text-align:left">section</th><th style="text-align:left">name</th>'
    yield '<th style="text-align:left">type</th><th style="text-align:left">attributes</th></tr>'
    for section, row in rows[:MAX_DECLARATIONS]:
        cells = (section, row.name + row.formals, row.type, row.attributes)
        yield f"<tr>{''.join(f'{cell}{_text(text)}</td>' for text in cells)}</tr>"
    yield "</table>"
    if len(rows) > MAX_DECLARATIONS:
        yield f"<p>… and {len(rows) - MAX_DECLARATIONS} more declarations</p>"


def _listing(graph: Graph) -> str:
    lines = graph.to_dsl().splitlines()
    more = f"\n… and {len(lines) - MAX_LINES} more lines" if len(lines) > MAX_LINES else ""
    text = _highlighted("\n".join(map(shown, lines[:MAX_LINES])))
    return f"<details><summary>program</summary><pre>{text}{more}</pre></details>"


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


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
