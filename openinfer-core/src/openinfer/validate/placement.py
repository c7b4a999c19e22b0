"""Which devices hints name: ``with { placement = "…" }`` of an operator, or of a loop or block around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ir.nodes import Loop, Op
from openinfer.ir.values import StrValue

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ir.graph import Graph
    from openinfer.ir.nodes import Node
    from openinfer.ir.values import Attrs


def hinted_devices(graph: Graph) -> Mapping[int, str]:
    """Return the device that hints name for each operator for which they do, by node index; the innermost wins."""
    devices: dict[int, str] = {}
    waiting: list[tuple[Sequence[Node], str | None]] = [
        (block.nodes, _named(block.hints, None)) for block in graph.blocks.values()
    ]
    while waiting:
        nodes, around = waiting.pop()
        for node in nodes:
            name = _named(node.hints, around)
            if isinstance(node.kind, Loop):
                waiting.append((node.kind.body, name))
            elif isinstance(node.kind, Op) and name is not None:
                devices[node.index] = name
    return devices


def _named(hints: Attrs, around: str | None) -> str | None:
    hint = hints.get("placement")
    return hint.value if isinstance(hint, StrValue) else around
