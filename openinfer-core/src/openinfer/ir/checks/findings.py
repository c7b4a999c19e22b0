"""Where the rules of phase S put what they find."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from openinfer.diagnostics import Diagnostic, Related, Severity, Span
from openinfer.ir.text import node_desc

if TYPE_CHECKING:
    from openinfer.ir.graph import Block, VarDecl
    from openinfer.ir.nodes import Node


LONGEST_SEARCHED = 10_000
"""Most characters of a statement in which a word is looked for."""


class Findings:
    """Collects findings in the order of the checks."""

    def __init__(self) -> None:
        self._found: list[tuple[tuple[int, int], Diagnostic]] = []
        self._blocks: dict[str, int] = {}
        self._told: set[tuple[str, int, str, str, int]] = set()
        self._described: tuple[Node | None, str] = (None, "")

    def sorted(self) -> tuple[Diagnostic, ...]:
        """Return the findings: those of declarations, then block by block in order of the statements."""
        return tuple(diagnostic for _, diagnostic in sorted(self._found, key=lambda found: found[0]))

    def of_graph(self, code: str, message: str, *, hint: str | None = None) -> None:
        """Record an error about the graph as a whole."""
        self._found.append(((-2, 0), Diagnostic(code=code, message=message, hint=hint)))

    def of_declaration(
        self, decl: VarDecl, code: str, message: str, *, word: str = "", hint: str | None = None
    ) -> None:
        """Record an error about a declaration, at the first ``word`` in it if that is given."""
        span = word_span(decl.span, word) if word else decl.span
        self._found.append(((-1, 0), Diagnostic(code=code, message=message, span=span, hint=hint)))

    def of_block(self, block: Block, code: str, message: str, *, severity: Severity = Severity.ERROR) -> None:
        """Record a finding about a block."""
        diagnostic = Diagnostic(code=code, message=message, severity=severity, span=block.span, block=block.name)
        self._found.append(((self._rank(block), 0), diagnostic))

    def of_node(
        self,
        block: Block,
        node: Node,
        code: str,
        message: str,
        *,
        severity: Severity = Severity.ERROR,
        span: Span | None = None,
        hint: str | None = None,
        related: tuple[Related, ...] = (),
    ) -> None:
        """Record a finding about a node, at ``span`` or else at the whole statement; the same one only once."""
        where = span or node.span
        if where is not None:
            key = (block.name, node.index, code, message, where.start)
            if key in self._told:
                return
            self._told.add(key)
        diagnostic = Diagnostic(
            code=code,
            message=message,
            severity=severity,
            span=where,
            hint=hint,
            related=related,
            block=block.name,
            node_index=node.index,
            node_desc=self._description(node),
        )
        place = node.span.start if node.span is not None else len(self._found)
        self._found.append(((self._rank(block), place), diagnostic))

    def _description(self, node: Node) -> str:
        """Return what describes a node; that of the last one is kept, since long statements may get many findings."""
        if self._described[0] is not node:
            self._described = node, node_desc(node)
        return self._described[1]

    def _rank(self, block: Block) -> int:
        return self._blocks.setdefault(block.name, len(self._blocks))

    def order_blocks(self, blocks: list[Block]) -> None:
        """Fix the order in which findings of blocks are reported."""
        self._blocks = {block.name: rank for rank, block in enumerate(blocks)}


def word_span(span: Span | None, word: str, after: str = "") -> Span | None:
    """Return the span of the first whole ``word`` inside ``span`` and behind the first ``after``; else ``span``.

    Statements too long to be read by a person are not searched.
    """
    if span is None or span.end - span.start > LONGEST_SEARCHED:
        return span
    text = span.source.text
    start = span.start
    if after:
        found = text.find(after, start, span.end)
        start = found + len(after) if found >= 0 else start
    match = re.compile(rf"(?<![A-Za-z0-9_]){re.escape(word)}(?![A-Za-z0-9_])").search(text, start, span.end)
    if match is None:
        return span
    line = span.line + text.count("\n", span.start, match.start())
    column = match.start() - text.rfind("\n", 0, match.start())
    return Span(span.source, match.start(), match.end(), line, column)


def declared_at(decl: VarDecl) -> tuple[Related, ...]:
    """Return the note that points at a declaration."""
    return (Related(f"`{decl.name}` is declared here", decl.span),) if decl.span is not None else ()
