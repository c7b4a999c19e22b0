"""Where steps come from: the text of a statement, and the hints that hold for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ir.nodes import Loop
from openinfer.ir.values import BoolValue, StrValue
from openinfer.plan.steps import Origin, Placement, Statement

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.ir.nodes import Node
    from openinfer.ir.values import AttrValue

LONGEST_TEXT = 160
"""Characters of a statement that are kept for comments and listings."""


def origin_of(block: str, node: Node) -> Origin:
    """Return the statement of a node as an origin."""
    line = node.span.line if node.span is not None else None
    return Origin(block, (Statement(node=node.index, line=line, text=_text_of(node)),))


def _text_of(node: Node) -> str:
    if node.span is None:
        from openinfer.ir.text import node_desc

        return node_desc(node)
    written = node.span.source.text[node.span.start : node.span.end]
    if isinstance(node.kind, Loop):
        written = written.partition("{")[0]
    text = " ".join(written.split())
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]} ..."


def placement_of(node: Node, inherited: Mapping[str, AttrValue]) -> Placement:
    """Return the hints of a node; ``inherited`` are those of the block and loops around it."""
    hints = {**inherited, **node.hints}
    fuse, no_reorder, group = hints.get("fuse"), hints.get("no_reorder"), hints.get("group")
    return Placement(
        scope=node.scope,
        fuse=fuse.value if isinstance(fuse, BoolValue) else True,
        no_reorder=no_reorder.value if isinstance(no_reorder, BoolValue) else False,
        group=group.value if isinstance(group, StrValue) else None,
    )
