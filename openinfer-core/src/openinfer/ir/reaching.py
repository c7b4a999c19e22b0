"""Statements that a step is certain to reach (``specification: runtime.sizes.7``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer import dims
from openinfer.affine import Index
from openinfer.ir.concurrency import consumers
from openinfer.ir.graph import walk
from openinfer.ir.nodes import Branch, Loop, Return, Yield

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from openinfer.ir.graph import Graph
    from openinfer.ir.nodes import Node

DEEPEST_CALLS = 64
"""Deepest nesting of calls and loops in which statements are certain to be reached."""


def reached_nodes(graph: Graph, sizes: Mapping[str, int], hidden: frozenset[str]) -> frozenset[int]:
    """Return the numbers of the statements that a step reaches at these sizes, unless an error ends it before.

    Statements in a loop are among them if its bounds depend on sizes alone and leave a turn, and those of a block
    if it is branched to without a condition, or if it waits for what is certain to be yielded.

    Args:
        hidden: names that mean a variable in integer expressions, whatever sizes there are.
    """
    return frozenset(node.index for node in _Reaching(graph, sizes, hidden).nodes())


class _Reaching:
    def __init__(self, graph: Graph, sizes: Mapping[str, int], hidden: frozenset[str]) -> None:
        self._graph = graph
        self._sizes = sizes
        self._hidden = hidden
        self._entered: set[str] = set()

    def nodes(self) -> Iterator[Node]:
        """Yield the statements, in the order in which they are reached first; those of consumers are last."""
        yielded: set[str] = set()
        for node in self._block("entry", 0):
            yield node
            if isinstance(node.kind, Yield):
                yielded.update(node.kind.names)
        for consumer in consumers(self._graph):
            if consumer.requirements <= yielded:
                yield from self._block(consumer.name, 1)

    def _block(self, name: str, depth: int) -> Iterator[Node]:
        block = self._graph.blocks.get(name)
        if block is None or name in self._entered or depth > DEEPEST_CALLS:
            return
        self._entered.add(name)
        yield from self._statements(block.nodes, frozenset(), depth)

    def _statements(self, nodes: Sequence[Node], indices: frozenset[str], depth: int) -> Iterator[Node]:
        """Yield the statements up to the first that may leave the block."""
        for node in nodes:
            yield node
            match node.kind:
                case Loop() as loop:
                    if self._has_turns(loop, indices) and depth < DEEPEST_CALLS:
                        yield from self._statements(loop.body, indices | {loop.index}, depth + 1)
                    if any(isinstance(inner.kind, Return) for inner in walk(loop.body)):
                        return
                case Branch(then_block=then, cond=None):
                    yield from self._block(then, depth + 1)
                case Return():
                    return
                case _:
                    pass

    def _has_turns(self, loop: Loop, indices: frozenset[str]) -> bool:
        """Whether sizes alone say that a loop has a turn."""
        start, end = (dims.index_of_expression(bound, _size) for bound in (loop.start, loop.end))
        used = dims.sources(start) | dims.sources(end)
        if used & (indices | self._hidden) or not used <= self._sizes.keys():
            return False
        if not (dims.divides_by_numbers(start) and dims.divides_by_numbers(end)):
            return False
        return dims.evaluated(start, self._sizes) < dims.evaluated(end, self._sizes)


def _size(name: str) -> Index:
    return Index.of(dims.Signed(name))
