"""The structure of a graph, without any model (``specification: language.phases.1``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.diagnostics import Severity, as_errors, in_source_order, summary
from openinfer.errors import ValidationError
from openinfer.ir.checks.blocks import check_blocks
from openinfer.ir.checks.declarations import check_declarations
from openinfer.ir.checks.findings import Findings
from openinfer.ir.checks.form import check_form
from openinfer.ir.checks.yields import check_yields
from openinfer.ir.doubts import NO_DOUBTS

if TYPE_CHECKING:
    from openinfer.diagnostics import Diagnostic
    from openinfer.ir.doubts import Doubts
    from openinfer.ir.graph import Graph


def check_graph(graph: Graph, *, strict: bool = False) -> tuple[Diagnostic, ...]:
    """Check names, indices, attribute combinations and block rules; return the warnings.

    Raises:
        ValidationError: with every finding, errors first; in strict mode warnings are errors.
    """
    diagnostics = structure_findings(graph)
    found = as_errors(diagnostics) if strict else diagnostics
    errors = [diagnostic for diagnostic in found if diagnostic.severity is Severity.ERROR]
    if errors:
        warnings = [diagnostic for diagnostic in found if diagnostic.severity is Severity.WARNING]
        raise ValidationError(summary(errors), diagnostics=(*errors, *warnings))
    return found


def structure_findings(graph: Graph) -> tuple[Diagnostic, ...]:
    """Return every finding of phase S.

    They are in source order; in a graph that came from no text, those of declarations are first, then those of
    ``entry``, then those of the other blocks by name.
    """
    return check_structure(graph, NO_DOUBTS)[0]


def check_structure(graph: Graph, doubts: Doubts) -> tuple[tuple[Diagnostic, ...], Doubts]:
    """Return the findings of phase S that are not consequences of what is in doubt, and what is in doubt after them."""
    findings = Findings(doubts)
    check_form(graph, findings)
    check_declarations(graph, findings)
    check_blocks(graph, findings)
    check_yields(graph, findings)
    return in_source_order(findings.sorted()), findings.all_doubts()
