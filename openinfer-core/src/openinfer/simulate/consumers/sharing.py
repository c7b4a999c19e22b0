"""How a program hands variables over to consumer blocks, known before it runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.ir.concurrency import Consumer, consumers, is_concurrent, private_temporaries, shared_names, uses

if TYPE_CHECKING:
    from openinfer.ir.graph import Graph


@dataclass(frozen=True, slots=True)
class Sharing:
    """The consumers of a program and the variables that they wait for.

    Attributes:
        consumers: the blocks that wait, by name.
        copied: variables that one consumer writes and others wait for too.
        common: variables that at least two of ``entry`` and the consumers use.
        private: temporaries that only consumers write; each run of one has its own.
    """

    graph: Graph
    consumers: tuple[Consumer, ...]
    copied: frozenset[str]
    common: frozenset[str]
    private: frozenset[str]


def sharing(graph: Graph) -> Sharing | None:
    """Return how a graph hands variables over; None when it does not."""
    if not is_concurrent(graph):
        return None
    threads = consumers(graph)
    waiting = Counter(name for thread in threads for name in thread.requirements)
    written = frozenset(name for thread in threads for name in thread.requirements & thread.uses.writes)
    entry = uses(graph, graph.blocks["entry"].nodes, shared_names(graph))
    users = Counter(name for used in (entry, *(thread.uses for thread in threads)) for name in used.reads | used.writes)
    return Sharing(
        graph,
        threads,
        copied=frozenset(name for name in written if waiting[name] > 1),
        common=frozenset(name for name, count in users.items() if count > 1),
        private=private_temporaries(graph),
    )
