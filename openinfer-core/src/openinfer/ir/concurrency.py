"""Blocks that run concurrently with ``entry`` (``specification: runtime.consumers``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.ir.graph import MemoryKind, walk
from openinfer.ir.nodes import Await, Branch, Yield
from openinfer.ir.temporaries import temporary_names
from openinfer.ir.uses import reads, writes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Set

    from openinfer.ir.graph import Graph
    from openinfer.ir.nodes import Node


@dataclass(frozen=True, slots=True)
class Uses:
    """Variables that statements read and write, those of called blocks included."""

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()

    def races_with(self, other: Uses) -> frozenset[str]:
        """Return the variables that one writes while the other uses them."""
        return (self.writes & (other.reads | other.writes)) | (other.writes & self.reads)


@dataclass(frozen=True, slots=True)
class Consumer:
    """A block that starts when all of ``requirements`` are out."""

    name: str
    requirements: frozenset[str]
    uses: Uses

    def races_with(self, other: Consumer) -> frozenset[str]:
        """Return the variables on which two consumers race: each has its own copy of what both wait for."""
        copied = self.requirements & other.requirements
        both = self.uses.writes & other.uses.writes
        return self.uses.races_with(other.uses) - (copied - both)


def consumers(graph: Graph) -> tuple[Consumer, ...]:
    """Return the consumers of a graph by name."""
    threads: list[Consumer] = []
    shared = shared_names(graph)
    for name in sorted(graph.blocks):
        waits = [node.kind.names for node in graph.blocks[name].walk() if isinstance(node.kind, Await)]
        if waits and name != "entry":
            required = frozenset(name for names in waits for name in names)
            threads.append(Consumer(name, required, uses(graph, graph.blocks[name].nodes, shared)))
    return tuple(threads)


def uses(graph: Graph, nodes: Iterable[Node], variables: Set[str]) -> Uses:
    """Return what statements use of some variables, with the bodies of their loops and the blocks that they call."""
    every = list(_reached(graph, tuple(nodes)))
    read = frozenset(name for node in every for name in reads(node))
    written = frozenset(name for node in every for name in writes(node))
    return Uses(read & variables, written & variables)


def handed_over(graph: Graph, names: Iterable[str]) -> tuple[str, ...]:
    """Return the names of a yield that go out: constants stay readable for everybody."""
    return tuple(n for n in names if n not in graph.vars or graph.vars[n].kind is not MemoryKind.CONSTANT)


def is_concurrent(graph: Graph) -> bool:
    """Whether ``entry`` hands variables over, or awaits any."""
    entry = graph.blocks.get("entry")
    return entry is not None and any(isinstance(node.kind, Yield | Await) for node in entry.walk())


def shared_names(graph: Graph) -> frozenset[str]:
    """Return the variables, and the temporaries that blocks share."""
    return frozenset(graph.vars) | (temporary_names(graph) - private_temporaries(graph))


def private_temporaries(graph: Graph) -> frozenset[str]:
    """Return the temporaries that consumers write and neither ``entry`` nor the blocks that it calls.

    They belong to one run of a consumer: consumers do not share them, and no ``await`` merges them.
    """
    entry = graph.blocks.get("entry")
    if entry is None or not is_concurrent(graph):
        return frozenset()
    written = {name for node in _reached(graph, entry.nodes) for name in writes(node)}
    return temporary_names(graph) - written


def reached_blocks(graph: Graph, name: str) -> tuple[str, ...]:
    """Return a block and those that it may branch to, directly or through others."""
    reached = [name]
    seen = {name}
    for block in reached:
        for node in graph.blocks[block].walk():
            if isinstance(node.kind, Branch):
                targets = filter(None, (node.kind.then_block, node.kind.else_block))
                entered = [target for target in dict.fromkeys(targets) if target in graph.blocks and target not in seen]
                reached += entered
                seen.update(entered)
    return tuple(reached)


def _reached(graph: Graph, nodes: tuple[Node, ...]) -> Iterator[Node]:
    seen: set[str] = set()
    waiting = [nodes]
    while waiting:
        for node in walk(waiting.pop()):
            yield node
            if not isinstance(node.kind, Branch):
                continue
            for target in filter(None, (node.kind.then_block, node.kind.else_block)):
                if target in graph.blocks and target not in seen:
                    seen.add(target)
                    waiting.append(graph.blocks[target].nodes)
