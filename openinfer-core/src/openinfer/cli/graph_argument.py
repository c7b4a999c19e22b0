"""The GRAPH argument of commands: program text, graph JSON, or standard input."""

from __future__ import annotations

import sys
from pathlib import Path
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
        DslSyntaxError: it is no text.
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
    from openinfer.dsl import decoded, text_of_file
    from openinfer.serialize import GraphDeserialize

    if argument.endswith(".json"):
        return GraphDeserialize.from_json(Path(argument), strict=strict)
    if argument != STANDARD_INPUT:
        return Source(argument, text_of_file(argument))
    name = "<standard input>"
    text = decoded(read_bounded(sys.stdin.buffer, name), name=name)
    if text.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
        return GraphDeserialize.from_json(text.lstrip("\ufeff"), strict=strict, name=name)
    return Source(name, text)
