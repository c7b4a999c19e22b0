"""Where blocks go on the page: layers by distance from ``entry``, cards side by side, edges between rows.

Lengths are CSS pixels. The page's style sheet takes the same numbers, so that rows are where edges end.
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from openinfer.draw.flow import MAX_HANDOVERS, EdgeKind, handovers
from openinfer.ir.nodes import Branch, Loop

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.draw.flow import Handover
    from openinfer.draw.rows import Row
    from openinfer.ir.graph import Graph
    from openinfer.ir.nodes import Node

ROW = 22
HEADER = 34
INDENT = 16
PADDING = 12
CHARACTER = 7.25
NARROWEST, WIDEST = 230, 760
ROWS_IN_ONE_COLUMN = 80
SHAPE = 1.5
"""Width to height of a card that needs several columns."""
LAYER_GAP, CARD_GAP = 130, 36
LAYER_HEIGHT = 2400
"""Cards of a layer are below each other up to this height, then next to each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """The place of a block: ``columns`` columns of ``rows_per_column`` rows, each ``column_width`` wide."""

    name: str
    rows: Sequence[Row]
    x: int = 0
    y: int = 0
    columns: int
    column_width: int
    rows_per_column: int

    @property
    def width(self) -> int:
        return self.columns * self.column_width

    @property
    def height(self) -> int:
        return HEADER + self.rows_per_column * ROW + PADDING

    def row_left(self, row: int) -> tuple[int, int]:
        """Return the middle of the left side of a row."""
        column, line = divmod(row, self.rows_per_column)
        return self.x + column * self.column_width, self.y + HEADER + line * ROW + ROW // 2

    def row_right(self, row: int) -> tuple[int, int]:
        """Return the middle of the right side of a row."""
        x, y = self.row_left(row)
        return x + self.column_width, y


@dataclass(frozen=True, slots=True)
class Line:
    """An edge as an SVG path; ``title`` says what it is."""

    kind: EdgeKind
    path: str
    title: str


@dataclass(frozen=True, slots=True)
class Layout:
    """The whole picture; ``left_out`` counts hand-overs that have no edge."""

    cards: Sequence[Card]
    lines: Sequence[Line]
    width: int
    height: int
    left_out: int


def lay_out(graph: Graph, rows: Mapping[str, Sequence[Row]]) -> Layout:
    """Return the places of blocks (given with their rows, ``entry`` first) and of the edges between them."""
    layers: dict[int, list[Card]] = defaultdict(list)
    depths = _depths(graph, rows)
    for name, block_rows in rows.items():
        layers[depths[name]].append(_card(name, block_rows))
    cards = {card.name: card for card in _placed([layers[depth] for depth in sorted(layers)])}
    pairs = handovers(graph)
    lines = [*_calls(cards), *_loops(cards), *_handovers(cards, islice(pairs, MAX_HANDOVERS))]
    return Layout(
        cards=tuple(cards[name] for name in rows),
        lines=lines,
        width=max((card.x + card.width for card in cards.values()), default=0),
        height=max((card.y + card.height for card in cards.values()), default=0),
        left_out=sum(1 for _ in pairs),
    )


def _depths(graph: Graph, rows: Mapping[str, Sequence[Row]]) -> dict[str, int]:
    """Return how many edges each block is away from ``entry``; blocks that nothing reaches come last."""
    owners = {id(row.node): name for name, found in rows.items() for row in found if row.node is not None}
    following: dict[str, list[str]] = defaultdict(list)
    for name, found in rows.items():
        following[name] += [target for row in found for target, _ in _targets(row.node) if target in rows]
    for pair in islice(handovers(graph), MAX_HANDOVERS):
        following[owners[id(pair.yields)]].append(owners[id(pair.awaits)])
    depths = {name: 0 for name in rows if name == "entry"}
    waiting = deque(depths)
    while waiting:
        name = waiting.popleft()
        for target in following[name]:
            if target not in depths:
                depths[target] = depths[name] + 1
                waiting.append(target)
    last = max(depths.values(), default=-1) + 1
    return {name: depths.get(name, last) for name in rows}


def _targets(node: Node | None) -> Iterator[tuple[str, EdgeKind]]:
    if node is None or not isinstance(node.kind, Branch):
        return
    branch = node.kind
    yield branch.then_block, EdgeKind.CALL if branch.cond is None else EdgeKind.THEN
    if branch.else_block is not None:
        yield branch.else_block, EdgeKind.ELSE


def _card(name: str, rows: Sequence[Row]) -> Card:
    longest = max((row.depth * INDENT + CHARACTER * (len(row.text) + len(row.note) + 3) for row in rows), default=0)
    title = CHARACTER * (len(name) + 24)
    width = round(min(WIDEST, max(NARROWEST, longest + 3 * PADDING, title)))
    count = max(1, len(rows))
    per_column = count if count <= ROWS_IN_ONE_COLUMN else math.ceil(math.sqrt(count * width / (SHAPE * ROW)))
    columns = math.ceil(count / per_column)
    return Card(name=name, rows=rows, columns=columns, column_width=width, rows_per_column=per_column)


def _placed(layers: Sequence[Sequence[Card]]) -> Iterator[Card]:
    """Yield the cards with their places, layer by layer from the left."""
    left = 0
    for layer in layers:
        top = widest = 0
        for card in layer:
            if top and top + card.height > LAYER_HEIGHT:
                left, top, widest = left + widest + CARD_GAP, 0, 0
            yield replace(card, x=left, y=top)
            top += card.height + CARD_GAP
            widest = max(widest, card.width)
        left += widest + LAYER_GAP


def _calls(cards: Mapping[str, Card]) -> Iterator[Line]:
    for card in cards.values():
        for place, row in enumerate(card.rows):
            for name, kind in _targets(row.node):
                target = cards.get(name)
                if target is not None:
                    yield Line(kind, _curve(card, place, target, None), f"{kind.value}: block {name}")


def _loops(cards: Mapping[str, Card]) -> Iterator[Line]:
    """Yield the way back from the end of each loop's body to its head, where both are in one column."""
    for card in cards.values():
        for place, row in enumerate(card.rows):
            same_column = place // card.rows_per_column == row.last // card.rows_per_column
            if row.node is None or not isinstance(row.node.kind, Loop) or row.last == place or not same_column:
                continue
            (x, top), (_, bottom) = card.row_left(place), card.row_left(row.last)
            bar = x + PADDING + row.depth * INDENT + INDENT // 2 - 4
            path = f"M{bar + 8} {bottom}H{bar + 4}Q{bar} {bottom} {bar} {bottom - 4}V{top + 9}"
            yield Line(EdgeKind.REPEAT, path, f"loop {row.node.kind.name}: again")


def _handovers(cards: Mapping[str, Card], pairs: Iterator[Handover]) -> Iterator[Line]:
    places = {id(row.node): (card, i) for card in cards.values() for i, row in enumerate(card.rows)}
    for pair in pairs:
        (source, from_row), (target, to_row) = places[id(pair.yields)], places[id(pair.awaits)]
        path = _curve(source, from_row, target, to_row)
        yield Line(EdgeKind.HANDOVER, path, f"handed over: {', '.join(pair.names)}")


def _curve(source: Card, from_row: int, target: Card, to_row: int | None) -> str:
    """Return a curve from a row to another card's row or head (None), between the sides that face each other.

    Cards above each other, or a card and itself, are joined on their right.
    """
    leaves_right = target.x + target.width > source.x
    arrives_right = target.x < source.x + source.width
    x1, y1 = source.row_right(from_row) if leaves_right else source.row_left(from_row)
    x2, y2 = _arrival(target, to_row, right=arrives_right)
    bend = max(60, abs(x2 - x1) // 2) if leaves_right != arrives_right else 60
    bend1, bend2 = (bend if leaves_right else -bend), (bend if arrives_right else -bend)
    return f"M{x1} {y1}C{x1 + bend1} {y1} {x2 + bend2} {y2} {x2} {y2}"


def _arrival(card: Card, row: int | None, *, right: bool) -> tuple[int, int]:
    """Return where an edge ends, a little outside so that its arrow shows."""
    if row is None:
        return card.x + (card.width + 4 if right else -4), card.y + HEADER // 2
    x, y = card.row_right(row) if right else card.row_left(row)
    return x + (4 if right else -4), y
