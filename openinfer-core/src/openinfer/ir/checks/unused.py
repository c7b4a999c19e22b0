"""Warnings about temporaries that nothing reads: most often the misspelt name of a declared output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.diagnostics import Severity, did_you_mean
from openinfer.ir.nodes import Await, Op, Yield
from openinfer.ir.uses import place_of_use, reads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from openinfer.ir.checks.names import Names
    from openinfer.ir.findings import Findings
    from openinfer.ir.graph import Graph


def check_unused(graph: Graph, names: Names, findings: Findings) -> None:
    """Warn about undeclared outputs that no statement reads.

    An output in front of one that is read keeps its place, and is not among them.
    """
    used: set[str] = set()
    for _, node in graph.nodes():
        used |= reads(node)
        if isinstance(node.kind, Yield | Await):
            used.update(node.kind.names)
    placeholders = dict(_placeholders(graph, used.union(graph.vars)))
    for name, (block, node) in names.inferred.items():
        if name in used or name in findings.doubts.names or name in placeholders.get(node.index, ()):
            continue
        message = f"temporary `{name}` is never read"
        hint = (
            did_you_mean(name, [*names.variables, *names.temporaries])
            or "leave the statement out, or declare the variable to fetch it"
        )
        severity = Severity.WARNING
        place = place_of_use(node, name)
        findings.of_node(block, node, "unused-temporary", message, severity=severity, place=place, hint=hint)


def _placeholders(graph: Graph, used: set[str]) -> Iterator[tuple[int, frozenset[str]]]:
    """Yield, by the index of each operator's node, the outputs in front of its last used one: they keep its place."""
    for _, node in graph.nodes():
        if isinstance(node.kind, Op) and len(outputs := node.kind.outputs) > 1:
            last = next((last_used for last_used in reversed(range(len(outputs))) if outputs[last_used] in used), 0)
            yield node.index, frozenset(outputs[:last])
