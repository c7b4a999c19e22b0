"""A graph as Mermaid flowchart text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from openinfer.draw.flow import EdgeKind, FlowKind, flow_of
from openinfer.draw.memory import memory_lines
from openinfer.draw.statements import Labels, elided, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openinfer.draw.flow import FlowEdge, FlowGraph
    from openinfer.ir.graph import Graph
    from openinfer.ir.resolved import ResolvedGraph

_SHAPES = {
    FlowKind.START: ('(("', '"))'),
    FlowKind.RUN: ('["', '"]'),
    FlowKind.LOOP: ('{{"', '"}}'),
    FlowKind.BRANCH: ('{"', '"}'),
    FlowKind.CALL: ('[["', '"]]'),
    FlowKind.YIELD: ('[/"', '"/]'),
    FlowKind.AWAIT: ('[\\"', '"\\]'),
    FlowKind.RETURN: ('(["', '"])'),
}
_ARROWS = {
    EdgeKind.NEXT: "-->",
    EdgeKind.EACH: "-->",
    EdgeKind.REPEAT: "-.->",
    EdgeKind.CALL: "==>",
    EdgeKind.THEN: "==>",
    EdgeKind.ELSE: "==>",
    EdgeKind.HANDOVER: "-.->",
}
# A colon or a per cent sign in a label could be taken for part of a style or of a directive.
_UNSAFE = re.compile(r"[^A-Za-z0-9 _.,()\[\]=+*/@|…-]")
_NAMED = {'"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;"}


def mermaid(graph: Graph, resolved: ResolvedGraph | None = None) -> str:
    """Return a graph as a Mermaid flowchart: a subgraph a block, and one for memory.

    Text of the program appears in quoted labels only, with everything that Mermaid or HTML could read as markup
    written as entity codes. The same graph gives the same text.

    Args:
        resolved: the graph with its sizes, whose shapes are shown in place of the declared ones.
    """
    flow = flow_of(graph, Labels(graph, resolved))
    lines = ["flowchart TD", *_memory(graph, resolved), *_blocks(flow), *map(_edge, flow.edges)]
    if flow.left_out:
        lines.append(f"  %% {flow.left_out} more hand-overs of variables are not drawn")
    boxes = [f"n{node.number}" for block in flow.blocks for node in block.nodes if node.kind is FlowKind.RUN]
    if boxes:
        lines += ["  classDef run text-align:left", f"  class {','.join(boxes)} run"]
    return "\n".join(lines) + "\n"


def _memory(graph: Graph, resolved: ResolvedGraph | None) -> Iterator[str]:
    sections = memory_lines(graph, resolved)
    if not sections:
        return
    yield '  subgraph memory ["memory"]'
    for kind, lines in sections.items():
        yield f'    m_{kind.value}[("{_label((kind.value, *lines))}")]'
    yield "  end"


def _blocks(flow: FlowGraph) -> Iterator[str]:
    for number, block in enumerate(flow.blocks):
        yield f'  subgraph b{number} ["{_label((f"block {block.name}",))}"]'
        for node in block.nodes:
            left, right = _SHAPES[node.kind]
            yield f"    n{node.number}{left}{_label(node.lines)}{right}"
        yield "  end"


def _edge(edge: FlowEdge) -> str:
    label = f'|"{_label((edge.label,))}"|' if edge.label else ""
    return f"  n{edge.source} {_ARROWS[edge.kind]}{label} n{edge.target}"


def _label(lines: tuple[str, ...]) -> str:
    return "<br/>".join(_UNSAFE.sub(_entity, elided(shown(line))) for line in lines)


def _entity(character: re.Match[str]) -> str:
    found = character.group()
    return _NAMED.get(found) or f"#{ord(found)};"
