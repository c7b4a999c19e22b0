"""Temporaries of a graph: of ``assign``, and undeclared outputs (``specification: language.temporaries``)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeAlias

from openinfer.ir.nodes import Assign, CacheRead, Loop, Op, Transfer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from openinfer.ir.graph import Block, Graph
    from openinfer.ir.nodes import Node

    Undeclared: TypeAlias = dict[str, tuple[Block, Node]]


def assigned_names(graph: Graph) -> frozenset[str]:
    """Return the names of temporaries that are declared by ``assign``."""
    return frozenset(node.kind.name for _, node in graph.nodes() if isinstance(node.kind, Assign))


def temporary_names(graph: Graph) -> frozenset[str]:
    """Return the names of all temporaries."""
    return assigned_names(graph) | undeclared_outputs(graph).keys()


def undeclared_outputs(graph: Graph) -> Undeclared:
    """Return each undeclared name that a statement outputs, with the first statement that does.

    ``entry`` comes first, then the other blocks by name. An output that has the name of a loop index around it is none.
    """
    declared = assigned_names(graph).union(graph.vars)
    undeclared: dict[str, tuple[Block, Node]] = {}
    for name in sorted(graph.blocks, key=lambda n: (n != "entry", n)):
        block = graph.blocks[name]
        for node, indices in with_indices(block.nodes):
            for output in outputs(node):
                if output not in declared and output not in indices:
                    undeclared.setdefault(output, (block, node))
    return undeclared


def outputs(node: Node) -> tuple[str, ...]:
    """Return the variables that a statement fills with a value: outputs of operators, targets of copies and reads."""
    kind = node.kind
    if isinstance(kind, Op):
        return kind.outputs
    return (kind.dst,) if isinstance(kind, Transfer | CacheRead) else ()


def written_once(graph: Graph) -> frozenset[str]:
    """Return the variables that exactly one statement fills with a value."""
    times = Counter(name for _, node in graph.nodes() for name in outputs(node))
    return frozenset(name for name, count in times.items() if count == 1)


def with_indices(nodes: Iterable[Node]) -> Iterator[tuple[Node, tuple[str, ...]]]:
    """Yield every node with the loop indices around it, outermost first; a loop before its body."""
    stack: list[tuple[Iterator[Node], tuple[str, ...]]] = [(iter(nodes), ())]
    while stack:
        pending, indices = stack[-1]
        for node in pending:
            yield node, indices
            if isinstance(node.kind, Loop):
                stack.append((iter(node.kind.body), (*indices, node.kind.index)))
                break
        else:
            stack.pop()
