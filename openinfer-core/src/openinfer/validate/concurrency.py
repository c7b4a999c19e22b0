"""Races, and consumers that never start, found before running (``specification: runtime.consumers``)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from openinfer.ir.concurrency import consumers, handed_over, is_concurrent, shared_names, uses
from openinfer.ir.graph import walk
from openinfer.ir.nodes import Await, Loop, Return, Yield

if TYPE_CHECKING:
    from openinfer.ir.concurrency import Consumer, Uses
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
        line.started = {consumer.name for consumer in line.consumers if consumer.requirements <= yielded}
    else:
        line.run()
    _warn_of_dead(graph, line.consumers, frozenset(line.started), findings)


def _inside_loops(entry: Block) -> list[Node]:
    loops = tuple(node for node in entry.nodes if isinstance(node.kind, Loop))
    return [node for node in walk(loops) if not isinstance(node.kind, Loop)]


def _warn_of_dead(graph: Graph, threads: tuple[Consumer, ...], started: frozenset[str], findings: Findings) -> None:
    for consumer in threads:
        if consumer.name in started:
            continue
        block = graph.blocks[consumer.name]
        needed = ", ".join(f"`{name}`" for name in sorted(consumer.requirements))
        with findings.at(block, block.nodes[0]):
            is_one = len(consumer.requirements) == 1
            why = f"never yields {needed}" if is_one else f"never has {needed} out together"
            message = f"consumer `{consumer.name}` never starts: entry {why}"
            findings.warn("dead-consumer", message)


class _Running:
    """The consumers that run, in the order of their starts, with what uses each variable."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._readers: defaultdict[str, dict[str, Consumer]] = defaultdict(dict)
        self._writers: defaultdict[str, dict[str, Consumer]] = defaultdict(dict)
        self._started = 0

    def __len__(self) -> int:
        return len(self._places)

    def add(self, consumer: Consumer) -> None:
        self._places[consumer.name] = self._started = self._started + 1
        for name in consumer.uses.reads:
            self._readers[name][consumer.name] = consumer
        for name in consumer.uses.writes:
            self._writers[name][consumer.name] = consumer

    def remove(self, consumer: Consumer) -> None:
        """Take out a consumer, if it is running."""
        if self._places.pop(consumer.name, None) is None:
            return
        for name in consumer.uses.reads:
            del self._readers[name][consumer.name]
        for name in consumer.uses.writes:
            del self._writers[name][consumer.name]

    def sharing(self, used: Uses) -> list[Consumer]:
        """Return the consumers with which a variable is shared that one of both writes."""
        sharing = {name: other for written in used.writes for name, other in self._readers[written].items()}
        for name in used.reads | used.writes:
            sharing |= self._writers[name]
        return sorted(sharing.values(), key=lambda consumer: self._places[consumer.name])


@dataclass
class _EntryLine:
    """Follows the top level of ``entry``, knowing which consumers run."""

    graph: Graph
    entry: Block
    findings: Findings
    consumers: tuple[Consumer, ...] = ()
    started: set[str] = field(default_factory=set[str])
    _shared: frozenset[str] = frozenset()
    _waiting: dict[str, list[Consumer]] = field(default_factory=dict[str, "list[Consumer]"])
    _fresh: dict[str, set[str]] = field(default_factory=dict[str, "set[str]"])
    _running: _Running = field(default_factory=lambda: _Running())

    def __post_init__(self) -> None:
        self.consumers = consumers(self.graph)
        self._shared = shared_names(self.graph)
        self._fresh = {consumer.name: set() for consumer in self.consumers}
        for consumer in self.consumers:
            for name in consumer.requirements:
                self._waiting.setdefault(name, []).append(consumer)

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
            for name in node.kind.names:
                for consumer in self._waiting.get(name, ()):
                    self._fresh[consumer.name].discard(name)
                    self._running.remove(consumer)
        elif self._running:
            used = uses(self.graph, (node,), self._shared)
            for other in self._running.sharing(used):
                # The structure check has reported uses of variables that are out.
                for name in sorted(other.uses.races_with(used) - other.requirements):
                    message = f"`{name}` is used here while consumer `{other.name}` uses it, and one of them writes it"
                    self.findings.error("race", message, hint=f"await `{min(other.requirements)}` before")

    def _yield(self, names: tuple[str, ...]) -> None:
        out = handed_over(self.graph, names)
        waiting = {consumer.name: consumer for name in out for consumer in self._waiting.get(name, ())}
        for _, consumer in sorted(waiting.items()):
            fresh = self._fresh[consumer.name]
            fresh |= consumer.requirements.intersection(out)
            if consumer.requirements <= fresh:
                fresh.clear()
                self._start(consumer)

    def _start(self, consumer: Consumer) -> None:
        for other in self._running.sharing(consumer.uses):
            for name in sorted(consumer.races_with(other)):
                message = f"consumers `{other.name}` and `{consumer.name}` run at the same time and race on `{name}`"
                self.findings.error("race", message, hint="only one of them may use what one of them writes")
        self.started.add(consumer.name)
        self._running.add(consumer)
