"""What a command prints: colour where a terminal can show it, tables of text, documents of JSON."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import click

from openinfer.diagnostics import printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import IO, Any


def wants_colour(stream: IO[Any]) -> bool:
    """Return whether to write colours to a stream: a terminal that is not dumb, and ``NO_COLOR`` is not set."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width_of(stream: IO[Any]) -> int | None:
    """Return the columns of the terminal that a stream writes to; None if it is not a terminal, or does not say."""
    if not stream.isatty():
        return None
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None


_WANTED = "openinfer.json"

_PRINTED = "openinfer.document"


def want_document(context: click.Context) -> None:
    """Note that a command has ``--json``: it prints nothing but one document, and failures."""
    context.meta[_WANTED] = True


def wants_document(context: click.Context) -> bool:
    """Return whether a command has ``--json``."""
    return bool(context.meta.get(_WANTED))


def print_document(document: Any) -> None:
    """Print the one JSON document of a command with ``--json``."""
    context = click.get_current_context(silent=True)
    if context is not None:
        context.find_root().meta[_PRINTED] = True
    click.echo(json.dumps(document, indent=2, allow_nan=False))


def has_printed_document(context: click.Context) -> bool:
    """Return whether a command that was run in a context has printed its document: there is no room for another."""
    return bool(context.find_root().meta.get(_PRINTED))


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows in aligned columns under a header; control characters are shown as escapes."""
    cells = [[printable(cell) for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells)
    return "\n".join(line.rstrip() for line in lines)
