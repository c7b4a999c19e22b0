"""Offsets of a text to lines and columns as the language server protocol counts them, and back."""

from __future__ import annotations

import re
from bisect import bisect_right

_LINE_END = re.compile(r"\r\n|\n|\r")
_WIDTHS = {"utf-8": 1, "utf-16": 2, "utf-32": 4}


class Places:
    """Lines and columns from 0; a column counts units of ``encoding`` (utf-8, utf-16 or utf-32)."""

    def __init__(self, text: str, encoding: str = "utf-16") -> None:
        self._text = text
        self._width = _WIDTHS[encoding]
        # Little-endian: no byte order mark is put in front.
        self._codec = encoding if encoding == "utf-8" else f"{encoding}-le"
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(text))]

    def position(self, offset: int) -> tuple[int, int]:
        """Return line and column of a character offset."""
        line = bisect_right(self._starts, offset) - 1
        return line, self._units(self._text[self._starts[line] : offset])

    def offset(self, line: int, column: int) -> int:
        """Return the character offset of a line and column; beyond the end of a line or text, that end."""
        if line >= len(self._starts):
            return len(self._text)
        start = self._starts[line]
        end = _LINE_END.search(self._text, start)
        content = self._text[start : end.start() if end is not None else len(self._text)]
        for place, character in enumerate(content):
            if column <= 0:
                return start + place
            column -= self._units(character)
        return start + len(content)

    def _units(self, text: str) -> int:
        return len(text.encode(self._codec, "surrogatepass")) // self._width
