"""The GRAPH argument of commands: program text, graph JSON, or standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
    if argument != STANDARD_INPUT and not argument.endswith(".json"):
        from openinfer.dsl import load_graph

        return load_graph(argument, strict=strict)
    from openinfer.serialize import GraphDeserialize

    if argument != STANDARD_INPUT:
        return GraphDeserialize.from_json(Path(argument), strict=strict)
    from openinfer.dsl import decoded, graph

    name = "<standard input>"
    text = decoded(sys.stdin.buffer.read(), name=name)
    if text.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
        return GraphDeserialize.from_json(text.lstrip("\ufeff"), strict=strict, name=name)
    return graph(text, strict=strict, name=name)
