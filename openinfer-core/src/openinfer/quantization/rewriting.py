"""Edits of program texts: statements and declarations are replaced, everything around them stays as it was written."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer import dsl
from openinfer.ir.text import graph_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from openinfer.diagnostics import Span
    from openinfer.ir.graph import Graph

_SEMICOLON = re.compile(r"(?:\s|//[^\n]*)*;")


@dataclass(frozen=True, slots=True)
class Edit:
    """Lines that take the place of a piece of a text; what the piece was is kept where ``start`` is ``end``."""

    start: int
    end: int
    lines: tuple[str, ...]


def with_source(graph: Graph) -> tuple[Graph, str]:
    """Return a graph whose parts have places in a text, and the text: its own, or its canonical one."""
    spans = [decl.span for decl in graph.vars.values()]
    spans += [node.span for block in graph.blocks.values() for node in block.walk()]
    found = next((span for span in spans if span is not None), None)
    if found is not None and all(spans):
        return graph, found.source.text
    text = graph_text(graph)
    return dsl.graph(text), text


def replace(span: Span, lines: Iterable[str]) -> Edit:
    """Return the edit that puts lines in place of a statement or declaration."""
    return Edit(span.start, _end(span), tuple(lines))


def before(span: Span, lines: Iterable[str]) -> Edit:
    """Return the edit that puts lines in front of a statement."""
    return Edit(span.start, span.start, (*lines, ""))


def after(span: Span, lines: Iterable[str]) -> Edit:
    """Return the edit that puts lines after a statement."""
    return Edit(_end(span), _end(span), ("", *lines))


def _end(span: Span) -> int:
    """Return where the semicolon after a statement or declaration ends."""
    text = span.source.text
    if text[span.start : span.end].endswith(";"):
        return span.end
    # A comment may precede the semicolon, with semicolons of its own.
    found = _SEMICOLON.match(text, span.end)
    if found is None:
        raise ValueError(f"no semicolon after {text[span.start : span.end]!r}")
    return found.end()


def edited(text: str, edits: Sequence[Edit]) -> str:
    """Return a text with all edits made; lines are indented like the one that they are in."""
    parts: list[str] = []
    place = 0
    for edit in sorted(edits, key=lambda each: (each.start, each.end)):
        line = text[text.rfind("\n", 0, edit.start) + 1 : edit.start]
        indent = line[: len(line) - len(line.lstrip())]
        parts += [text[place : edit.start], f"\n{indent}".join(edit.lines)]
        place = edit.end
    return "".join([*parts, text[place:]])
