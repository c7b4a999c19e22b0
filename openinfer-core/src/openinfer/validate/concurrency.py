"""Races, and consumers that never start, found before running (``specification: runtime.consumers``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from openinfer.ir.concurrency import consumers, handed_over, is_concurrent, uses
from openinfer.ir.graph import walk
from openinfer.ir.nodes import Await, Loop, Return, Yield

if TYPE_CHECKING:
    from openinfer.ir.concurrency import Consumer
    from openinfer.ir.findings import Findings
    from openinfer.ir.graph import Block, Graph
    from openinfer.ir.nodes import Node


def check_concurrency(graph: Graph, findings: Findings) -> None:
    """Record races between blocks that run at the same time, and warn of consumers that can never start."""
    if not is_concurrent(graph):
        _warn_of_dead(graph, consumers(graph), frozenset(), findings)
        return
    entry = graph.blocks["entry"]
    line = _EntryLine(graph, entry, findings)
    if any(isinstance(node.kind, Yield | Await) for node in _inside_loops(entry)):
        yielded = {name for node in entry.walk() if isinstance(node.kind, Yield) for name in node.kind.names}
        line.started = {each.name for each in line.consumers if each.requirements <= yielded}
    else:
        line.run()
    _warn_of_dead(graph, line.consumers, frozenset(line.started), findings)


def _inside_loops(entry: Block) -> list[Node]:
    loops = tuple(node for node in entry.nodes if isinstance(node.kind, Loop))
    return [node for node in walk(loops) if not isinstance(node.kind, Loop)]


def _warn_of_dead(graph: Graph, found: tuple[Consumer, ...], started: frozenset[str], findings: Findings) -> None:
    for consumer in found:
        if consumer.name in started:
            continue
        block = graph.blocks[consumer.name]
        needed = ", ".join(f"`{name}`" for name in sorted(consumer.requirements))
        with findings.at(block, block.nodes[0]):
            is_one = len(consumer.requirements) == 1
            why = f"never yields {needed}" if is_one else f"never has {needed} out together"
            message = f"consumer `{consumer.name}` never starts: entry {why}"
            findings.warn("dead-consumer", message)


@dataclass
class _EntryLine:
    """Follows the top level of ``entry``, knowing which consumers run."""

    graph: Graph
    entry: Block
    findings: Findings
    consumers: tuple[Consumer, ...] = ()
    started: set[str] = field(default_factory=set[str])
    _fresh: dict[str, set[str]] = field(default_factory=dict[str, "set[str]"])
    _running: list[Consumer] = field(default_factory=list["Consumer"])

    def __post_init__(self) -> None:
        self.consumers = consumers(self.graph)
        self._fresh = {each.name: set() for each in self.consumers}

    def run(self) -> None:
        for node in self.entry.nodes:
            with self.findings.at(self.entry, node):
                self._node(node)
            if isinstance(node.kind, Return):
                return

    def _node(self, node: Node) -> None:
        if isinstance(node.kind, Yield):
            self._yield(node.kind.names)
        elif isinstance(node.kind, Await):
            awaited = frozenset(node.kind.names)
            self._running = [each for each in self._running if not each.requirements & awaited]
            for fresh in self._fresh.values():
                fresh -= awaited
        elif self._running:
            used = uses(self.graph, (node,))
            for each in self._running:
                # The structure check has reported uses of variables that are out.
                for name in sorted(each.uses.races_with(used) - each.requirements):
                    message = f"`{name}` is used here while consumer `{each.name}` uses it, and one of them writes it"
                    self.findings.error("race", message, hint=f"await `{min(each.requirements)}` before")

    def _yield(self, names: tuple[str, ...]) -> None:
        for consumer in self.consumers:
            fresh = self._fresh[consumer.name]
            fresh |= consumer.requirements.intersection(handed_over(self.graph, names))
            if consumer.requirements <= fresh:
                fresh.clear()
                self._start(consumer)

    def _start(self, consumer: Consumer) -> None:
        for other in self._running:
            for name in sorted(consumer.races_with(other)):
                message = f"consumers `{other.name}` and `{consumer.name}` run at the same time and race on `{name}`"
                self.findings.error("race", message, hint="only one of them may use what one of them writes")
        self.started.add(consumer.name)
        self._running.append(consumer)
