"""Inferred declarations written out as ``assign`` statements, in the text of a program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.ir.concurrency import consumers, private_temporaries, reached_blocks
from openinfer.ir.graph import walk
from openinfer.ir.temporaries import outputs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from openinfer.ir.graph import Block, Graph
    from openinfer.ir.nodes import Node
    from openinfer.validate.inference import InferredType


@dataclass(frozen=True, slots=True)
class Assigned:
    """A text with the ``assign`` statements that were written into it, and the types for which there is none."""

    text: str
    written: tuple[InferredType, ...]
    left: tuple[InferredType, ...]


def with_assigns(text: str, graph: Graph, types: Iterable[InferredType]) -> Assigned:
    """Add declarations to a text for types that it leaves to inference, as far as ``assign`` can; the meaning stays.

    The ``assign`` precedes the statement of ``entry`` that first yields the name, or of the loops around it;
    at the head of ``entry`` where other blocks yield it too; and at the head of a consumer that has it to itself.
    """
    places = _places(graph)
    written: list[tuple[int, InferredType]] = []
    left: list[InferredType] = []
    for type_ in types:
        first = places.get(type_.name)
        if first is None or first.span is None or not type_.is_known:
            left.append(type_)
        else:
            written.append((first.span.start, type_))
    pieces: list[str] = []
    end = len(text)
    for start, type_ in sorted(written, key=lambda pair: pair[0], reverse=True):
        pieces += [text[start:end], f"assign {type_}; "]
        end = start
    pieces.append(text[:end])
    return Assigned("".join(reversed(pieces)), tuple(type_ for _, type_ in written), tuple(left))


def _places(graph: Graph) -> Mapping[str, Node]:
    """Return the statement in front of which each output may be declared."""
    first_uses: dict[str, Node] = {}
    private = private_temporaries(graph)
    entry = graph.blocks["entry"]
    elsewhere = _outputs(graph, [name for name in graph.blocks if name != "entry"])
    firsts = _firsts(entry)
    for name in _outputs(graph, graph.blocks) - private:
        first = entry.nodes[0] if name in elsewhere else firsts.get(name)
        if first is not None:
            first_uses[name] = first
    owners: dict[str, list[str]] = {}
    for thread in (consumer.name for consumer in consumers(graph)):
        for name in private & _outputs(graph, reached_blocks(graph, thread)):
            owners.setdefault(name, []).append(thread)
    for name, threads in owners.items():
        if len(threads) == 1:
            first_uses[name] = graph.blocks[threads[0]].nodes[0]
    return first_uses


def _firsts(block: Block) -> Mapping[str, Node]:
    """Return, by name, the statement of a block that yields it first, or the outermost loop around that."""
    firsts: dict[str, Node] = {}
    for top in block.nodes:
        for name in (name for node in walk((top,)) for name in outputs(node)):
            firsts.setdefault(name, top)
    return firsts


def _outputs(graph: Graph, blocks: Iterable[str]) -> frozenset[str]:
    nodes: Sequence[Node] = [node for name in blocks for node in graph.blocks[name].walk()]
    return frozenset(name for node in nodes for name in outputs(node))
