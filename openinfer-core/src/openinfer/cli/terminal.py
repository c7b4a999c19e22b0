"""What a terminal can show: colour, and tables of text."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from openinfer.diagnostics import printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import IO, Any


def wants_colour(stream: IO[Any]) -> bool:
    """Return whether to write colours to a stream: a terminal that is not dumb, and ``NO_COLOR`` is not set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows in aligned columns under a header; control characters are shown as escapes."""
    cells = [[printable(cell) for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(line.rstrip() for line in lines)
