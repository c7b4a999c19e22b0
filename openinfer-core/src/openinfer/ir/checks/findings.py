"""Where the rules of phase S put what they find."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.diagnostics import Diagnostic, Related, Severity
from openinfer.ir.places import span_of
from openinfer.ir.text import node_desc

if TYPE_CHECKING:
    from openinfer.diagnostics import Span
    from openinfer.ir.doubts import Doubts
    from openinfer.ir.graph import Block, VarDecl
    from openinfer.ir.nodes import Node
    from openinfer.ir.places import Place


class Findings:
    """Collects findings in the order of the checks, and what they leave in doubt.

    ``doubts`` is what findings of earlier phases leave open.
    """

    def __init__(self, doubts: Doubts) -> None:
        self.doubts = doubts
        self._names: set[str] = set()
        self._nodes: set[int] = set()
        self._found: list[tuple[tuple[int, int], Diagnostic]] = []
        self._blocks: dict[str, int] = {}
        self._told: set[tuple[str, int, str, str, int]] = set()
        self._described: tuple[Node | None, str] = (None, "")

    def sorted(self) -> tuple[Diagnostic, ...]:
        """Return the findings: those of declarations, then block by block in order of the statements."""
        return tuple(diagnostic for _, diagnostic in sorted(self._found, key=lambda found: found[0]))

    def all_doubts(self) -> Doubts:
        """Return the doubts of earlier phases and those of the errors found here."""
        names, nodes = self.doubts.names | self._names, self.doubts.nodes | self._nodes
        return replace(self.doubts, names=names, nodes=nodes)

    def doubt(self, name: str) -> None:
        """Leave a name out of later checks: it means two things."""
        self._names.add(name)

    def of_graph(self, code: str, message: str, *, hint: str | None = None) -> None:
        """Record an error about the graph as a whole."""
        self._found.append(((-2, 0), Diagnostic(code=code, message=message, hint=hint)))

    def of_declaration(
        self, decl: VarDecl, code: str, message: str, *, place: Place | None = None, hint: str | None = None
    ) -> None:
        """Record an error about a declaration, at ``place`` or else at all of it."""
        span = span_of(decl.span, place)
        self._names.add(decl.name)
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
        place: Place | None = None,
        hint: str | None = None,
        related: tuple[Related, ...] = (),
    ) -> None:
        """Record a finding about a node, at ``place`` or else at the whole statement; the same one only once."""
        if severity is Severity.ERROR:
            self._nodes.add(node.index)
        where = span_of(node.span, place)
        key = (block.name, node.index, code, message, where.start if where is not None else -1)
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
        order = node.span.start if node.span is not None else len(self._found)
        self._found.append(((self._rank(block), order), diagnostic))

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


def declared_at(decl: VarDecl) -> tuple[Related, ...]:
    """Return the note that points at a declaration."""
    return noted_at(f"`{decl.name}` is declared here", decl.span)


def noted_at(message: str, span: Span | None) -> tuple[Related, ...]:
    """Return the note about another place; none for a graph that came from no text."""
    return (Related(message, span),) if span is not None else ()
