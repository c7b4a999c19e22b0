"""Temporaries that are used where nothing can have given them a value (``specification: language.temporaries.4``)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from openinfer.diagnostics import Related
from openinfer.ir.concurrency import consumers, is_concurrent, reached_blocks
from openinfer.ir.graph import walk
from openinfer.ir.nodes import Assign, Return
from openinfer.ir.temporaries import outputs
from openinfer.ir.uses import operands, place_of_use

if TYPE_CHECKING:
    from openinfer.ir.doubts import Doubts
    from openinfer.ir.findings import Findings
    from openinfer.ir.graph import Block, Graph
    from openinfer.ir.nodes import Node
    from openinfer.ir.temporaries import Undeclared


def check_temporaries(graph: Graph, undeclared: Undeclared, findings: Findings, doubts: Doubts) -> None:
    """Record uses of a temporary in front of what gives it a value, where no path leads from there to here.

    ``undeclared`` are the `undeclared_outputs` of the graph.

    What branches, other blocks and loops without iterations leave out is known to the run only.
    """
    entry = graph.blocks.get("entry")
    if entry is None or doubts.may_miss("assign"):
        return
    waiting: dict[str, Node] = {}
    for node in entry.walk():
        if isinstance(node.kind, Assign) and node.kind.name not in doubts.names:
            waiting.setdefault(node.kind.name, node)
    if not doubts.lost:
        waiting |= {
            name: node for name, node in _written_here(graph, entry, undeclared).items() if name not in doubts.names
        }
        _check_threads(graph, undeclared, findings, doubts)
    for top in entry.nodes:
        for node in walk((top,)):
            _check_node(entry, node, waiting, findings, doubts)
        if isinstance(top.kind, Return):
            return


def _written_here(graph: Graph, block: Block, undeclared: Undeclared) -> dict[str, Node]:
    """Return the undeclared outputs that no other block writes, with the first statement that does."""
    elsewhere = {
        name for other in graph.blocks.values() if other is not block for node in other.walk() for name in outputs(node)
    }
    return {name: node for name, (where, node) in undeclared.items() if where is block and name not in elsewhere}


def _check_node(entry: Block, node: Node, waiting: dict[str, Node], findings: Findings, doubts: Doubts) -> None:
    """Record the uses of a statement of what is ``waiting`` for its first value, by name."""
    if isinstance(node.kind, Assign):
        waiting.pop(node.kind.name, None)
        return
    if not waiting:
        return
    if node.index not in doubts.nodes:
        uses = [name for name in operands(node) if name in waiting]
        # A statement that only gives a temporary its first value does not use it.
        times = Counter(uses)
        times.subtract(outputs(node))
        early = [name for name in dict.fromkeys(uses) if times[name] > 0 or isinstance(waiting[name].kind, Assign)]
        if early:
            with findings.at(entry, node):
                for name in early:
                    _record(name, node, waiting[name], findings)
    for name in outputs(node):
        if name in waiting and not isinstance(waiting[name].kind, Assign):
            del waiting[name]


def _record(name: str, node: Node, first: Node, findings: Findings) -> None:
    """Record a use of a temporary without a value."""
    if isinstance(first.kind, Assign):
        note, message = "its `assign` follows here", f"temporary `{name}` is used before its `assign` has run"
    else:
        note, message = "it gets its first value here", f"temporary `{name}` is used before anything has written it"
    related = () if first.span is None else (Related(note, first.span),)
    findings.error("temporary-unset", message, place=place_of_use(node, name), related=related)


def _check_threads(graph: Graph, undeclared: Undeclared, findings: Findings, doubts: Doubts) -> None:
    """Record uses of what only concurrent blocks write: temporaries of a consumer are its own."""
    if not is_concurrent(graph):
        return
    inferred = undeclared.keys() - doubts.names
    blocks = {
        name: reached_blocks(graph, name) for name in ("entry", *(consumer.name for consumer in consumers(graph)))
    }
    written = {
        name: {output for block in blocks_reached for node in graph.blocks[block].walk() for output in outputs(node)}
        for name, blocks_reached in blocks.items()
    }
    reported: set[tuple[int, str]] = set()
    for thread, blocks_reached in blocks.items():
        for block in blocks_reached:
            for node in graph.blocks[block].walk():
                for name in dict.fromkeys(operands(node)):
                    available = name not in inferred or name in written[thread] or name in written["entry"]
                    if available or (node.index, name) in reported:
                        continue
                    reported.add((node.index, name))
                    with findings.at(graph.blocks[block], node):
                        message = f"temporary `{name}` has no value here: only blocks that run concurrently write it"
                        hint = f"declare `{name}` in `volatile`: an `await` merges such variables, and no temporaries"
                        findings.error("temporary-unset", message, place=place_of_use(node, name), hint=hint)
