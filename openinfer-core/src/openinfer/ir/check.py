"""The structure of a graph, without any model (``specification: language.phases.1``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.diagnostics import as_errors, in_source_order
from openinfer.ir.checks.blocks import check_blocks
from openinfer.ir.checks.declarations import check_declarations
from openinfer.ir.checks.form import check_form
from openinfer.ir.checks.names import ordered_blocks
from openinfer.ir.checks.yields import check_yields
from openinfer.ir.doubts import NO_DOUBTS
from openinfer.ir.findings import Findings

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.diagnostics import Diagnostic
    from openinfer.ir.doubts import Doubts
    from openinfer.ir.graph import Graph


def check_graph(graph: Graph, *, strict: bool = False) -> tuple[Diagnostic, ...]:
    """Check names, indices, attribute combinations and block rules; return the warnings.

    Raises:
        ValidationError: with every finding, errors first; in strict mode warnings are errors.
    """
    findings = Findings()
    structure = structure_findings(graph)
    findings.items += as_errors(structure) if strict else structure
    return findings.finish()


def structure_findings(graph: Graph) -> tuple[Diagnostic, ...]:
    """Return every finding of phase S.

    They are in source order; in a graph that came from no text, those of declarations are first, then those of
    ``entry``, then those of the other blocks by name.
    """
    return check_structure(graph, NO_DOUBTS)[0]


def check_structure(graph: Graph, doubts: Doubts) -> tuple[tuple[Diagnostic, ...], Doubts]:
    """Return the findings of phase S that are not consequences of what is in doubt, and what is in doubt after them."""
    findings = Findings(doubts=doubts)
    check_form(graph, findings)
    check_declarations(graph, findings)
    check_blocks(graph, findings)
    check_yields(graph, findings)
    return in_source_order(sorted(findings.items, key=_rank(graph))), findings.all_doubts()


def _rank(graph: Graph) -> Callable[[Diagnostic], int]:
    """Return a sort key of findings: those about the graph, then declarations, then blocks in order."""
    ranks = {block.name: rank for rank, block in enumerate(ordered_blocks(graph), start=2)}

    def rank(diagnostic: Diagnostic) -> int:
        return ranks[diagnostic.block] if diagnostic.block is not None else int(diagnostic.name is not None)

    return rank
