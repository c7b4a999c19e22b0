"""Temporaries that are used where their `assign` cannot have run (language specification, section 9.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.diagnostics import Related
from openinfer.ir.graph import walk
from openinfer.ir.nodes import Assign, Return
from openinfer.ir.uses import operands, place_of_use

if TYPE_CHECKING:
    from openinfer.ir.doubts import Doubts
    from openinfer.ir.graph import Block, Graph
    from openinfer.ir.nodes import Node
    from openinfer.validate.findings import Findings


def check_temporaries(graph: Graph, findings: Findings, doubts: Doubts) -> None:
    """Record uses of a temporary in ``entry`` in front of its `assign`: no path leads from there to here.

    What branches, other blocks and loops without iterations leave out is known to the run only.
    """
    entry = graph.blocks.get("entry")
    if entry is None or doubts.may_lack("assign"):
        return
    waiting: dict[str, Node] = {}
    for node in entry.walk():
        if isinstance(node.kind, Assign) and node.kind.name not in doubts.names:
            waiting.setdefault(node.kind.name, node)
    for top in entry.nodes:
        for node in walk((top,)):
            _check_node(entry, node, waiting, findings, doubts)
        if isinstance(top.kind, Return):
            return


def _check_node(entry: Block, node: Node, waiting: dict[str, Node], findings: Findings, doubts: Doubts) -> None:
    """Record the uses of a statement of what is ``waiting`` for its `assign`, by name."""
    if isinstance(node.kind, Assign):
        waiting.pop(node.kind.name, None)
        return
    if not waiting or node.index in doubts.nodes:
        return
    with findings.at(entry, node):
        for name in dict.fromkeys(name for name in operands(node) if name in waiting):
            span = waiting[name].span
            related = () if span is None else (Related("its `assign` stands behind", span),)
            message = f"temporary `{name}` is used before its `assign` has run"
            findings.error("temporary-unset", message, place=place_of_use(node, name), related=related)
