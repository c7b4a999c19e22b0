"""A block as a list of rows: its statements, with a row above each scope, indented by loops and scopes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openinfer.draw.statements import shown
from openinfer.ir.nodes import Loop, Op
from openinfer.ir.strings import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from openinfer.draw.statements import Labels
    from openinfer.ir.graph import Block
    from openinfer.ir.nodes import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a block; ``node`` is None for a scope. ``last`` is the last row of a loop's body (or its own)."""

    text: str
    depth: int
    note: str = ""
    node: Node | None = None
    last: int = 0

    @property
    def word(self) -> str:
        """First word: the keyword of the statement."""
        return self.text.partition(" ")[0]


def rows_of(block: Block, labels: Labels) -> list[Row]:
    """Return the rows of a block in written order."""
    rows: list[Row] = []
    _append(rows, block.nodes, labels, (), 0)
    return rows


def _append(rows: list[Row], nodes: Iterable[Node], labels: Labels, outer: tuple[str, ...], depth: int) -> None:
    before: tuple[str, ...] = outer
    for node in nodes:
        scopes = node.scope
        rows += (
            Row(text=shown(f"scope {quoted(scopes[level])}"), depth=depth + max(0, level - len(outer)))
            for level in range(_shared(before, scopes), len(scopes))
        )
        before = scopes
        inner = depth + max(0, len(scopes) - len(outer))
        place = len(rows)
        rows.append(Row(text=labels.text(node), note=labels.note(node), depth=inner, node=node, last=place))
        if isinstance(node.kind, Loop):
            _append(rows, node.kind.body, labels, scopes, inner + 1)
            rows[place] = replace(rows[place], last=len(rows) - 1)


def _shared(left: tuple[str, ...], right: tuple[str, ...]) -> int:
    """Return how many names two paths of scopes begin with alike."""
    count = 0
    for mine, other in zip(left, right, strict=False):
        if mine != other:
            break
        count += 1
    return count


def keyword_and_rest(row: Row) -> tuple[str, str]:
    """Return the keyword of a row (for an operator with its name) and the rest of its text."""
    if row.node is not None and isinstance(row.node.kind, Op):
        head = f"op {shown(row.node.kind.op)}"
        return head, row.text[len(head) :]
    return row.word, row.text[len(row.word) :]
