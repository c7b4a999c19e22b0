"""The GRAPH argument of commands: program text, graph JSON, or standard input."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from openinfer.diagnostics import Source
from openinfer.regular_files import read_bounded

if TYPE_CHECKING:
    from openinfer.dsl.reading import Reading
    from openinfer.ir.graph import Graph

STANDARD_INPUT = "-"


def read_graph(argument: str, *, strict: bool = False) -> Graph:
    """Return the graph of a ``.oi`` text, a ``.json`` document, or ``-`` for either on standard input.

    What starts with ``{`` or ``[`` is JSON, which no program does.

    Raises:
        DslSyntaxError, GraphError: the text is not a program; all findings.
        SerializationError: the document is not a graph; all findings.
        OSError: the file cannot be read.
    """
    given = _given(argument, strict=strict)
    if not isinstance(given, Source):
        return given
    from openinfer.dsl import graph

    return graph(given.text, strict=strict, name=given.name)


def read_program(argument: str) -> Reading:
    """Return what can be read of what `read_graph` takes.

    Raises:
        DslSyntaxError: it is not text.
        SerializationError, OSError: as `read_graph`.
    """
    from openinfer.dsl import read_program
    from openinfer.dsl.reading import Reading

    given = _given(argument, strict=False)
    if isinstance(given, Source):
        return read_program(given.text, name=given.name)
    return Reading(source=Source(argument, ""), graph=given)


def _given(argument: str, *, strict: bool) -> Graph | Source:
    """Return a program text as it is, or the graph of a JSON document."""
    from openinfer.dsl import decoded
    from openinfer.programs import read_file, read_text

    if argument != STANDARD_INPUT:
        return read_file(argument, strict=strict)
    name = "<standard input>"
    return read_text(decoded(read_bounded(sys.stdin.buffer, name), name=name), name, strict=strict)
