"""A graph as one SVG picture: what the page shows, without its script, for documents and reviews."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from openinfer.draw.flow import blocks_in_order
from openinfer.draw.layout import CHARACTER, HEADER, INDENT, PADDING, ROW, lay_out
from openinfer.draw.memory import memory_lines
from openinfer.draw.rows import keyword_and_rest, rows_of
from openinfer.draw.statements import Labels, elided, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.draw.layout import Card, Line
    from openinfer.draw.rows import Row
    from openinfer.ir.graph import Graph
    from openinfer.ir.resolved import ResolvedGraph

MARGIN, GAP, TITLE = 24, 40, 40
"""Pixels around the picture, between memory and blocks, and for the title."""

LONGEST_LINE = 90
"""Characters of a declaration that are shown."""

_COLOURS = {
    "call": "#3b6fd6",
    "then": "#2b8a3e",
    "else": "#d9660a",
    "repeat": "#77818f",
    "handover": "#9c36b5",
}
_MONO = 'font-family="ui-monospace, DejaVu Sans Mono, monospace" font-size="12"'

_SANS = 'font-family="system-ui, sans-serif" font-size="15"'


def svg(graph: Graph, resolved: ResolvedGraph | None = None, *, title: str = "graph") -> str:
    """Return a graph as SVG: memory on the left, blocks with their statements and types, edges between them.

    It holds no script and loads nothing; text of the program is escaped. The same graph gives the same text.

    Args:
        resolved: the graph with its sizes, whose shapes are shown in place of the declared ones.
        title: what the picture is called, such as the file of the program.
    """
    labels = Labels(graph, resolved)
    layout = lay_out(graph, {block.name: rows_of(block, labels) for block in blocks_in_order(graph)})
    memory = [*_memory(graph, resolved)]
    left = MARGIN + round(CHARACTER * max((len(line) for line, _ in memory), default=0)) + GAP
    width = left + layout.width + 3 * MARGIN
    height = TITLE + max(layout.height, ROW * len(memory)) + 2 * MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {_size(width, height)} role="img">',
        f"<title>{_text(title)}</title>",
        f"<defs>{''.join(_arrow(kind, colour) for kind, colour in _COLOURS.items())}</defs>",
        f'<rect {_size(width, height)} fill="#ffffff"/>',
        f'<text x="{MARGIN}" y="{MARGIN + 8}" {_SANS} font-weight="600" fill="#1c2430">{_text(title)}</text>',
        *_memory_texts(memory),
        f'<g transform="translate({left} {TITLE + MARGIN})">',
        *(line for number, card in enumerate(layout.cards) for line in _card(number, card)),
        *map(_edge, layout.lines),
        "</g>",
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _size(width: int, height: int) -> str:
    return f'width="{width}" height="{height}"'


def _memory(graph: Graph, resolved: ResolvedGraph | None) -> Iterator[tuple[str, bool]]:
    """Yield the lines of the memory sections, and whether each is a heading."""
    for kind, declarations in memory_lines(graph, resolved).items():
        yield kind.value, True
        yield from ((f"  {elided(line, LONGEST_LINE)}", False) for line in declarations)


def _memory_texts(lines: Sequence[tuple[str, bool]]) -> Iterator[str]:
    for number, (line, is_heading) in enumerate(lines):
        y = TITLE + MARGIN + ROW * number + 16
        weight = ' font-weight="600" fill="#58606d"' if is_heading else ' fill="#1c2430"'
        yield f'<text x="{MARGIN}" y="{y}" xml:space="preserve" {_MONO}{weight}>{_text(line)}</text>'


def _card(number: int, card: Card) -> Iterator[str]:
    yield (
        f'<rect x="{card.x}" y="{card.y}" width="{card.width}" height="{card.height}" rx="9" fill="#ffffff"'
        ' stroke="#c3cad4"/>'
    )
    yield (
        f'<text x="{card.x + PADDING}" y="{card.y + HEADER - 12}" {_MONO} font-weight="600" fill="#2457c5">'
        f"{_text(card.name)}</text>"
    )
    # A statement wider than its column is cut there: the hover text has all of it.
    for column in range(card.columns):
        x = card.x + column * card.column_width
        yield (
            f'<clipPath id="c{number}-{column}"><rect x="{x}" y="{card.y}" width="{card.column_width - 4}"'
            f' height="{card.height}"/></clipPath>'
        )
    for place, row in enumerate(card.rows):
        yield _row(card, place, row, f"c{number}-{place // card.rows_per_column}")


def _row(card: Card, place: int, row: Row, clip: str) -> str:
    keyword, rest = keyword_and_rest(row)
    x, y = card.row_left(place)
    right, _ = card.row_right(place)
    start, room = x + PADDING + row.depth * INDENT + 8, card.column_width - 2 * PADDING - row.depth * INDENT - 8
    is_wide = CHARACTER * (len(row.text) + len(row.note) + 2) > room
    note = "" if is_wide else f'<text x="{right - PADDING}" y="{y + 4}" text-anchor="end" fill="#0a697a">'
    note += f"{_text(row.note)}</text>" if note else ""
    hover = f"<title>{_text(f'{row.text}: {row.note}' if row.note else row.text)}</title>"
    return (
        f'<g clip-path="url(#{clip})" {_MONO}>{hover}<text x="{start}" y="{y + 4}" xml:space="preserve" fill="#1c2430">'
        f'<tspan font-weight="600" fill="#984707">{_text(keyword)}</tspan>{_text(rest)}</text>{note}</g>'
    )


def _arrow(kind: str, colour: str) -> str:
    return (
        f'<marker id="to-{kind}" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0L8 4L0 8Z" fill="{colour}"/></marker>'
    )


def _edge(line: Line) -> str:
    kind = line.kind.value
    dashes = ' stroke-dasharray="6 4"' if kind == "handover" else ""
    return (
        f'<path d="{line.path}" fill="none" stroke="{_COLOURS[kind]}" stroke-width="1.6"{dashes}'
        f' marker-end="url(#to-{kind})"><title>{_text(line.title)}</title></path>'
    )


def _text(text: str) -> str:
    return escape(shown(text), quote=True)
