"""A graph as Graphviz text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.draw.flow import EdgeKind, FlowKind, flow_of
from openinfer.draw.memory import memory_lines
from openinfer.draw.statements import Labels, elided, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.draw.flow import FlowEdge, FlowGraph
    from openinfer.ir.graph import Graph
    from openinfer.ir.resolved import ResolvedGraph

_SHAPES = {
    FlowKind.START: "circle",
    FlowKind.RUN: "box",
    FlowKind.LOOP: "hexagon",
    FlowKind.BRANCH: "diamond",
    FlowKind.CALL: "box",
    FlowKind.YIELD: "cds",
    FlowKind.AWAIT: "larrow",
    FlowKind.RETURN: "oval",
}
_STYLES = {
    EdgeKind.NEXT: (),
    EdgeKind.EACH: (),
    EdgeKind.REPEAT: ("style=dashed", "constraint=false"),
    EdgeKind.CALL: ("style=bold", "color=royalblue"),
    EdgeKind.THEN: ("style=bold", "color=seagreen"),
    EdgeKind.ELSE: ("style=bold", "color=darkorange"),
    EdgeKind.HANDOVER: ("style=dashed", "color=purple"),
}


def dot(graph: Graph, resolved: ResolvedGraph | None = None) -> str:
    """Return a graph in Graphviz's DOT language: a cluster a block, and one for memory.

    Text of the program appears in quoted strings only; backslashes, quotes and ampersands (Graphviz reads entities) are
    escaped. The same graph gives the same text.

    Args:
        resolved: the graph with its sizes, whose shapes are shown in place of the declared ones.
    """
    flow = flow_of(graph, Labels(graph, resolved))
    lines = [
        "digraph openinfer {",
        '  graph [charset="UTF-8", compound=true, fontname="monospace"];',
        '  node [fontname="monospace", fontsize=10];',
        '  edge [fontname="monospace", fontsize=9];',
        *_memory(graph, resolved),
        *_blocks(flow),
        *map(_edge, flow.edges),
    ]
    if flow.left_out:
        lines.append(f"  // {flow.left_out} more hand-overs of variables are not drawn")
    return "\n".join([*lines, "}"]) + "\n"


def _memory(graph: Graph, resolved: ResolvedGraph | None) -> Iterator[str]:
    sections = memory_lines(graph, resolved)
    if not sections:
        return
    yield "  subgraph cluster_memory {"
    yield '    label="memory";'
    for kind, lines in sections.items():
        yield f'    m_{kind.value} [shape=cylinder, label="{_text((kind.value, *lines))}"];'
    yield "  }"


def _blocks(flow: FlowGraph) -> Iterator[str]:
    for number, block in enumerate(flow.blocks):
        yield f"  subgraph cluster_b{number} {{"
        yield f'    label="block {_escaped(block.name)}";'
        for node in block.nodes:
            peripheries = ", peripheries=2" if node.kind is FlowKind.CALL else ""
            yield f'    n{node.number} [shape={_SHAPES[node.kind]}{peripheries}, label="{_text(node.lines)}"];'
        yield "  }"


def _edge(edge: FlowEdge) -> str:
    label = (f'label="{_escaped(edge.label)}"',) if edge.label else ()
    attributes = ", ".join((*label, *_STYLES[edge.kind]))
    return f"  n{edge.source} -> n{edge.target}{f' [{attributes}]' if attributes else ''};"


def _text(lines: Sequence[str]) -> str:
    """Return the lines of a label, left-justified if there are several."""
    if len(lines) == 1:
        return _escaped(lines[0])
    return "".join(f"{_escaped(line)}\\l" for line in lines)


def _escaped(text: str) -> str:
    return elided(shown(text)).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"')
