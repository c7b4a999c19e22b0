"""Spans of a source, with line starts looked up instead of counted, so that many spans stay linear."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from openinfer.diagnostics import Span

if TYPE_CHECKING:
    from openinfer.diagnostics import Source
    from openinfer.dsl.syntax import Place


class Positions:
    """Turns offsets of one source into spans."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._starts = [0]
        offset = source.text.find("\n")
        while offset >= 0:
            self._starts.append(offset + 1)
            offset = source.text.find("\n", offset + 1)

    def line(self, offset: int) -> int:
        """Return the 1-based line of an offset."""
        return bisect_right(self._starts, offset)

    def span(self, start: int, end: int) -> Span:
        """Return the span of the characters ``start`` (included) to ``end`` (excluded)."""
        line = bisect_right(self._starts, start)
        return Span(self.source, start, end, line, start - self._starts[line - 1] + 1)

    def of(self, place: Place) -> Span:
        """Return the span of a place."""
        return self.span(place.start, place.end)
