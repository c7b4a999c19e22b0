"""How a program hands variables over to consumer blocks, known before it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.ir.concurrency import Consumer, consumers, is_concurrent

if TYPE_CHECKING:
    from openinfer.ir.graph import Graph


@dataclass(frozen=True, slots=True)
class Sharing:
    """The consumers of a program and the variables that they wait for.

    Attributes:
        consumers: the blocks that wait, by name.
        copied: variables that one consumer writes and others wait for too.
    """

    graph: Graph
    consumers: tuple[Consumer, ...]
    copied: frozenset[str]


def sharing(graph: Graph) -> Sharing | None:
    """Return how a graph hands variables over; None when it does not."""
    if not is_concurrent(graph):
        return None
    found = consumers(graph)
    waiting = [name for each in found for name in each.requirements]
    written = frozenset(name for each in found for name in each.requirements & each.uses.writes)
    return Sharing(graph, found, frozenset(name for name in written if waiting.count(name) > 1))
