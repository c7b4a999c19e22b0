"""Consumers in line: ``entry`` calls the blocks that wait for what it yields, where it takes that back.

Validation has made sure that no block changes what another one uses meanwhile, except for variables that several
consumers have copies of: blocks that only read such a variable are called before the one that writes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ir.concurrency import consumers, handed_over
from openinfer.plan.findings import at_node
from openinfer.plan.steps import CallStep

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.ir.concurrency import Consumer
    from openinfer.ir.graph import Graph
    from openinfer.ir.nodes import Node
    from openinfer.plan.steps import Origin, Step
    from openinfer.plan.threaded_consumers import ThreadedConsumers


class HandOvers:
    """Follows the yields and awaits of ``entry`` in their order.

    Args:
        threads: starts consumers at a yield; None: an await calls them.
    """

    def __init__(self, graph: Graph, threads: ThreadedConsumers | None = None) -> None:
        self._graph = graph
        self._threads = threads
        self._consumers = consumers(graph)
        self._out: set[str] = set()
        self._pending: list[Consumer] = []
        self._around: list[frozenset[str]] = []

    def begin_loop(self) -> None:
        """Note the begin of a loop of ``entry``."""
        self._around.append(frozenset(self._out))

    def end_loop(self, node: Node) -> None:
        """Note the end of a loop.

        Raises:
            SynthesisError: a turn of it ends with something out that was not out before, or the other way round.
        """
        before = self._around.pop()
        changed = sorted(before ^ self._out)
        if changed:
            message = f"`{changed[0]}` is not taken back in the iteration of the loop that yields it"
            hint = "write its `yield` and its `await` into one turn, both in the loop or both outside of it"
            raise at_node("unsupported", message, "entry", node, hint=hint)

    def hand_over(self, names: Sequence[str], node: Node, origin: Origin) -> Iterator[Step]:
        """Note a yield; yield the steps that start consumers on threads.

        Raises:
            SynthesisError: it yields what was yielded already, or it is in a loop around which something else is out.
        """
        if self._around and self._around[-1]:
            message = f"a loop yields `{names[0]}` while `{min(self._around[-1])}` is out, yielded before the loop"
            raise at_node("unsupported", message, "entry", node, hint="await that before the loop, or yield it in it")
        entries = set(handed_over(self._graph, names))
        again = sorted(entries & self._out)
        if again:
            raise at_node("deadlock", f"`{again[0]}` is yielded, and it was not taken back before", "entry", node)
        self._out |= entries
        self._pending += [c for c in self._consumers if c.requirements & entries and c.requirements <= self._out]
        if self._threads is not None:
            unready = [c.name for c in self._consumers if not c.requirements <= self._out]
            free = self._threads.free([c.name for c in self._pending], unready)
            order = _readers_first([c for c in self._pending if c.name in free], node)
            self._pending = [c for c in self._pending if c.name not in free]
            yield from self._threads.start([c.name for c in order], origin)

    def take_back(self, names: Sequence[str], node: Node, origin: Origin) -> Iterator[Step]:
        """Yield the steps of an await: the wait for threads, then calls of other consumers.

        Raises:
            SynthesisError: it awaits what was not yielded, or consumers change what others wait for.
        """
        missing = [name for name in handed_over(self._graph, names) if name not in self._out]
        if missing:
            raise at_node("deadlock", f"`{missing[0]}` is awaited, and it was not yielded", "entry", node)
        self._out -= set(names)
        pending, self._pending = self._pending, []
        if self._threads is not None:
            yield from self._threads.join(origin)
        for consumer in _readers_first(pending, node):
            yield CallStep(origin=origin, procedure=consumer.name)

    def end(self, node: Node) -> None:
        """Note a return of ``entry``.

        Raises:
            SynthesisError: something is still out.
        """
        if self._out:
            raise at_node("deadlock", f"the step ends while `{min(self._out)}` is out: await it before", "entry", node)


def _readers_first(pending: Sequence[Consumer], node: Node) -> list[Consumer]:
    """Return consumers in an order in which each precedes those that write variables that it awaits."""
    left: list[Consumer] = list(pending)
    order: list[Consumer] = []
    while left:
        free = next((c for c in left if not any(_changes(c, other) for other in left if other is not c)), None)
        if free is None:
            names = ", ".join(c.name for c in left)
            message = f"consumers {names} each change what another one waits for: that cannot be synthesised"
            raise at_node("unsupported", message, "entry", node, hint="let one of them write a variable of its own")
        left.remove(free)
        order.append(free)
    return order


def _changes(one: Consumer, other: Consumer) -> bool:
    """Whether a consumer writes what another one is to see as it was yielded."""
    return bool(one.uses.writes & other.requirements & (other.uses.reads | other.uses.writes))
