"""A graph as one self-contained HTML page: no network, no other file, nothing of the program is markup or script."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from importlib import resources
from typing import TYPE_CHECKING

from openinfer.diagnostics import counted
from openinfer.draw.flow import blocks_in_order
from openinfer.draw.layout import HEADER, INDENT, PADDING, ROW, lay_out
from openinfer.draw.memory import memory_rows
from openinfer.draw.rows import keyword_and_rest, rows_of
from openinfer.draw.statements import Labels, shown
from openinfer.ir.nodes import Await, Branch, Yield
from openinfer.ir.temporaries import temporary_names
from openinfer.ir.uses import reads, writes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from openinfer.draw.layout import Card, Layout, Line
    from openinfer.draw.memory import MemoryRow
    from openinfer.draw.rows import Row
    from openinfer.ir.graph import Graph
    from openinfer.ir.nodes import Node
    from openinfer.ir.resolved import ResolvedGraph

_OPTION = ' role="option" tabindex="0"'
"""Attributes of what a click or Enter acts on; the script leaves one tab stop for each list."""

_EDGE_NAMES = {
    "call": "branch",
    "then": "then",
    "else": "else",
    "repeat": "loop",
    "handover": "yield, await",
}


def html(graph: Graph, resolved: ResolvedGraph | None = None, *, title: str = "graph") -> str:
    """Return a graph as a page for a browser: blocks with their statements, edges, memory, search, zoom.

    The page is one file and loads nothing; a content security policy admits only the page's own script. Text of the
    program is escaped. The same graph gives the same text.

    Args:
        resolved: the graph with its sizes, whose shapes are shown in place of the declared ones.
        title: what the page is called, such as the file of the program.
    """
    labels = Labels(graph, resolved)
    rows = {block.name: rows_of(block, labels) for block in blocks_in_order(graph)}
    layout = lay_out(graph, rows)
    script, style = _resource("page.js"), _resource("page.css")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    writer = _Page(graph, resolved, labels, layout)
    pieces = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
        f"<title>{_text(title)} · OpenInfer</title>\n<style>\n{_lengths()}\n{style}</style>\n</head>\n<body>\n",
        *writer.toolbar(title),
        *writer.sidebar(),
        *writer.canvas(),
        f'<pre id="detail" role="status" hidden></pre>\n<script>{script}</script>\n</body>\n</html>\n',
    ]
    return "".join(pieces)


def _resource(name: str) -> str:
    return resources.files("openinfer.draw").joinpath(name).read_text(encoding="utf-8")


def _lengths() -> str:
    return f":root {{ --row: {ROW}px; --header: {HEADER}px; --indent: {INDENT}px; --padding: {PADDING}px; }}"


def _text(text: str) -> str:
    """Return text of the program as HTML text, also inside a quoted attribute."""
    return escape(shown(text), quote=True)


class _Page:
    """The parts of one page."""

    def __init__(self, graph: Graph, resolved: ResolvedGraph | None, labels: Labels, layout: Layout) -> None:
        self._graph = graph
        self._resolved = resolved
        self._labels = labels
        self._layout = layout
        self._memory = memory_rows(graph, resolved)
        temporaries = temporary_names(graph)
        written = (name for _, node in graph.nodes() for name in sorted(writes(node)))
        self._temporaries = tuple(dict.fromkeys(name for name in written if name in temporaries))
        self._variables = {name: place for place, name in enumerate(dict.fromkeys([*graph.vars, *self._temporaries]))}
        self._blocks = {card.name: place for place, card in enumerate(layout.cards)}

    # Toolbar

    def toolbar(self, title: str) -> Iterator[str]:
        nodes = sum(1 for _ in self._graph.nodes())
        counts = f"{counted(len(self._blocks), 'block')}, {counted(nodes, 'node')}"
        yield f'<header id="bar"><h1>{_text(title)}</h1><span class="counts">{counts}</span>\n'
        yield '<label class="find"><input id="search" type="search" placeholder="Search ( / )" aria-label="Search">'
        yield '<output id="found"></output></label>\n<span class="buttons">'
        for name, text, tip in (
            ("previous", "↑", "Previous match (Shift+Enter)"),
            ("next", "↓", "Next match (Enter)"),
            ("out", "&minus;", "Zoom out (-)"),
            ("in", "+", "Zoom in (+)"),
            ("fit", "Fit", "Show everything (0)"),
            ("theme", "◐", "Dark or light"),
        ):
            yield f'<button id="{name}" type="button" title="{tip}">{text}</button>'
        yield '</span>\n<span class="legend">'
        present = {line.kind.value for line in self._layout.lines}
        yield "".join(f'<i class="{kind}">{name}</i>' for kind, name in _EDGE_NAMES.items() if kind in present)
        if self._layout.left_out:
            yield f"<i>{self._layout.left_out} more hand-overs without an edge</i>"
        yield "</span></header>\n"

    # Sidebar

    def sidebar(self) -> Iterator[str]:
        yield '<nav id="side">\n'
        if self._resolved is not None and self._resolved.sizes:
            yield "<details open><summary>sizes</summary><ul>"
            for name, size in self._resolved.sizes.items():
                yield f'<li class="item"><b>{_text(name)}</b> <span>{size}</span></li>'
            yield "</ul></details>\n"
        for kind, rows in self._memory.items():
            yield from self._section(kind.value, f"{len(rows)}{self._size(rows)}", map(self._declaration, rows))
        if self._temporaries:
            yield from self._section("temporary", str(len(self._temporaries)), map(self._temporary, self._temporaries))
        links = (
            f'<li class="item block" data-block="{n}"{_OPTION}><b>{_text(name)}</b></li>'
            for name, n in self._blocks.items()
        )
        yield from self._section("blocks", str(len(self._blocks)), links)
        yield "</nav>\n"

    def _section(self, name: str, counts: str, items: Iterable[str]) -> Iterator[str]:
        yield f'<details open class="memory {name}"><summary>{name} <small>{counts}</small></summary>'
        yield f'<ul role="listbox" aria-label="{name}">\n'
        yield "\n".join(items)
        yield "\n</ul></details>\n"

    def _size(self, rows: Sequence[MemoryRow]) -> str:
        if self._resolved is None:
            return ""
        tables = " and tables" if any(row.nbytes is None for row in rows) else ""
        return f", {_bytes(sum(row.nbytes or 0 for row in rows))}{tables}"

    def _declaration(self, row: MemoryRow) -> str:
        extra = "; ".join(filter(None, (row.attributes, f"data: {row.source}" if row.source else "")))
        note = f"<small>{escape(extra)}</small>" if extra else ""
        size = "" if row.nbytes is None else f' title="{_bytes(row.nbytes)}"'
        attributes = f'class="item var" data-var="{self._variables[row.name]}"{size}{_OPTION}'
        return f"<li {attributes}><b>{_text(row.name + row.formals)}</b> <span>{_text(row.type)}</span>{note}</li>"

    def _temporary(self, name: str) -> str:
        type_ = _text(self._labels.types.get(name, ""))
        attributes = f'class="item var" data-var="{self._variables[name]}"{_OPTION}'
        return f"<li {attributes}><b>{_text(name)}</b> <span>{type_}</span></li>"

    # Canvas

    def canvas(self) -> Iterator[str]:
        layout = self._layout
        yield f'<main id="stage"><div id="canvas" data-width="{layout.width}" data-height="{layout.height}">\n'
        for place, card in enumerate(layout.cards):
            yield from self._card(place, card)
        yield f'<svg id="edges" width="{layout.width}" height="{layout.height}"><defs>'
        yield "".join(_arrow(kind) for kind in _EDGE_NAMES)
        yield "</defs>\n"
        yield "\n".join(map(_edge, layout.lines))
        yield "\n</svg></div></main>\n"

    def _card(self, place: int, card: Card) -> Iterator[str]:
        block = self._graph.blocks[card.name]
        kind = "entry" if card.name == "entry" else "consumer" if _awaits(block.walk()) else "sub-block"
        yield (
            f'<section class="card {kind}" id="b{place}" style="left:{card.x}px;top:{card.y}px;'
            f'width:{card.width}px;height:{card.height}px"><h2 id="h{place}"><b>{_text(card.name)}</b> <small>{kind}, '
            f"{counted(sum(row.node is not None for row in card.rows), 'node')}</small></h2>\n"
        )
        for start in range(0, len(card.rows), card.rows_per_column):
            yield f'<ol role="listbox" aria-labelledby="h{place}" style="width:{card.column_width}px">\n'
            for row in card.rows[start : start + card.rows_per_column]:
                yield self._row(row)
            yield "</ol>"
        yield "</section>\n"

    def _row(self, row: Row) -> str:
        keyword, rest = keyword_and_rest(row)
        text = f"<b>{_text(keyword)}</b><span>{_text(rest)}</span>"
        note = f"<i>{_text(row.note)}</i>" if row.note else ""
        style = f' style="--depth:{row.depth}"' if row.depth else ""
        if row.node is None:
            return f'<li class="scope" role="presentation"{style}>{text}</li>\n'
        detail = escape(self._labels.detail(row.node), quote=True)
        links = (
            self._places("reads", _read(row.node)) + self._places("writes", writes(row.node)) + self._jumps(row.node)
        )
        word = _text(row.word).replace(".", "-")
        return f'<li class="row {word}"{_OPTION}{style}{links} data-detail="{detail}">{text}{note}</li>\n'

    def _places(self, name: str, variables: Iterable[str]) -> str:
        found = sorted(self._variables[variable] for variable in variables if variable in self._variables)
        return f' data-{name}="{" ".join(map(str, found))}"' if found else ""

    def _jumps(self, node: Node) -> str:
        names = (node.kind.then_block, node.kind.else_block) if isinstance(node.kind, Branch) else ()
        found = [self._blocks[name] for name in names if name in self._blocks]
        return f' data-blocks="{" ".join(map(str, found))}"' if found else ""


def _read(node: Node) -> Iterable[str]:
    return node.kind.names if isinstance(node.kind, Yield | Await) else reads(node)


def _awaits(nodes: Iterable[Node]) -> bool:
    return any(isinstance(node.kind, Await) for node in nodes)


def _arrow(kind: str) -> str:
    return (
        f'<marker id="to-{kind}" class="{kind}" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0L8 4L0 8Z"/></marker>'
    )


def _edge(line: Line) -> str:
    kind = line.kind.value
    return (
        f'<path class="{kind}" d="{line.path}" marker-end="url(#to-{kind})"><title>{_text(line.title)}</title></path>'
    )


def _bytes(count: int) -> str:
    """Return a number of bytes with a binary unit."""
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"
