"""What the text form guarantees and the other ways to a graph do not: names, numbers, fitting literals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.scalars import check_fits

if TYPE_CHECKING:
    from openinfer.ir.findings import Findings
    from openinfer.ir.graph import Graph


def check_form(graph: Graph, findings: Findings) -> None:
    """Check keys against names, node numbers, ``@init`` literals, and that there is an ``entry``."""
    for key, decl in graph.vars.items():
        if key != decl.name:
            findings.of_graph("graph", f"variable `{decl.name}` is filed under `{key}`")
        misfit = check_fits(decl.dtype, decl.init) if decl.init is not None else None
        if misfit is not None and not decl.dtype.is_float:
            findings.of_declaration(decl, "init-mismatch", f"@init of `{decl.name}`: {misfit}")
    for key, block in graph.blocks.items():
        if key != block.name:
            findings.of_graph("graph", f"block `{block.name}` is filed under `{key}`")
    _check_numbers(graph, findings)
    if "entry" not in graph.blocks and not findings.doubts.may_be_block("entry"):
        message = "there is no block `entry`" if graph.blocks else "the program has no blocks"
        hint = "a step starts at `block entry { … }`"
        if len(graph.blocks) == 1:
            hint += f": call the block `{next(iter(graph.blocks))}` `entry`?"
        findings.of_graph("missing-entry", message, hint=hint)


def _check_numbers(graph: Graph, findings: Findings) -> None:
    seen: set[int] = set()
    for block, node in graph.nodes():
        if node.index in seen:
            findings.of_node(block, node, "graph", f"node number {node.index} is used twice")
        if node.index >= graph.next_index:
            message = f"node number {node.index} is not below the next free number {graph.next_index}"
            findings.of_node(block, node, "graph", message)
        seen.add(node.index)
