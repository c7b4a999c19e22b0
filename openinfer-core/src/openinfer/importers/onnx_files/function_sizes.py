"""How many nodes a model has once the functions that it defines are inlined."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from openinfer.importers.onnx_files.failures import broken

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Key: TypeAlias = tuple[str, str, str]

MOST_INLINED = 1_000_000
"""Nodes of the largest model that functions are inlined in: each level of calls may double them."""

DEEPEST_CALLS = 100
"""Most functions that call each other in a row."""


def check_inlined_size(proto: Any, name: str) -> None:
    """Count the nodes of a model without inlining anything.

    Raises:
        ModelImportError: they are more than `MOST_INLINED`, or functions call themselves.
    """
    bodies: dict[Key, Any] = {(f.domain, f.name, getattr(f, "overload", "")): f for f in proto.functions}
    counts: dict[Key, int] = {}

    def count(nodes: Iterable[Any], callers: tuple[Key, ...]) -> int:
        total = 0
        for node in with_inner(nodes):
            key = (node.domain, node.op_type, getattr(node, "overload", ""))
            if key in callers:
                raise broken(f"{name}: the function {node.op_type!r} calls itself")
            if key in bodies and key not in counts:
                if len(callers) >= DEEPEST_CALLS:
                    raise broken(f"{name}: more than {DEEPEST_CALLS} functions call each other in a row")
                counts[key] = count(bodies[key].node, (*callers, key))
            total += counts.get(key, 1)
        return total

    total = count(proto.graph.node, ())
    if total > MOST_INLINED:
        message = f"{name} has {total} nodes once its functions are inlined, of which at most {MOST_INLINED} are read"
        raise broken(f"{message}: export it without functions that repeat others so often")


def with_inner(nodes: Iterable[Any]) -> Iterator[Any]:
    """Yield nodes and those of the graphs in their attributes."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            yield from with_inner(attribute.g.node)
            for graph in attribute.graphs:
                yield from with_inner(graph.node)
