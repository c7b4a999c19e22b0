"""Numbers and ids of nodes: the same text gives the same ones (``specification: json.graphs.4``)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID, uuid5

from openinfer.ir.nodes import Node
from openinfer.ir.text import kind_desc

if TYPE_CHECKING:
    from openinfer.diagnostics import Span
    from openinfer.ir.nodes import NodeKind
    from openinfer.ir.places import Places
    from openinfer.ir.values import Attrs

NAMESPACE = UUID("6f1b6a52-93c4-5c0e-9d2f-0b7d8f1f6a11")
"""Namespace of the version-5 ids of nodes that come from text."""


class Numbering:
    """Counts nodes over a whole graph, in the order in which they are completed: a loop after its body."""

    def __init__(self) -> None:
        self.block = ""
        self.next_index = 0

    def node(
        self, kind: NodeKind, hints: Attrs, scope: tuple[str, ...], span: Span | None, places: Places | None
    ) -> Node:
        """Return the next node of the current block."""
        index = self.next_index
        self.next_index += 1
        uuid = uuid5(NAMESPACE, f"{self.block}/{index}/{kind_desc(kind)}")
        return Node(index=index, uuid=uuid, kind=kind, hints=hints, scope=scope, span=span, places=places)
