"""Places of findings about graphs that are made by calls: the lines of Python that made them."""

from __future__ import annotations

import inspect
import linecache
from typing import TYPE_CHECKING

from openinfer.diagnostics import Source, Span
from openinfer.dsl.syntax import Place

if TYPE_CHECKING:
    from types import FrameType

_OWN = ("openinfer.dsl.builder", "openinfer.dsl.call_sites", "contextlib")


class CallSites:
    """Numbers call sites, so that a `Place` can stand for one, and looks their lines up when a finding needs them."""

    def __init__(self) -> None:
        self._sites: list[tuple[str, int]] = []
        self._sources: dict[str, Source] = {}

    def here(self) -> Place:
        """Return a place that stands for the line outside of the builder that is running."""
        frame: FrameType | None = inspect.currentframe()
        while frame is not None and frame.f_globals.get("__name__") in _OWN:
            frame = frame.f_back
        self._sites.append((frame.f_code.co_filename, frame.f_lineno) if frame is not None else ("", 0))
        return Place(len(self._sites) - 1, len(self._sites))

    def of(self, place: Place) -> Span | None:
        """Return the line of a call, or None where its source cannot be read."""
        file, line = self._sites[place.start]
        if file not in self._sources:
            self._sources[file] = Source(file, "".join(linecache.getlines(file)))
        source = self._sources[file]
        lines = linecache.getlines(file)
        if not 0 < line <= len(lines):
            return None
        start = sum(map(len, lines[: line - 1]))
        indent = len(lines[line - 1]) - len(lines[line - 1].lstrip())
        return Span(source, start + indent, start + len(lines[line - 1].rstrip()), line, indent + 1)
