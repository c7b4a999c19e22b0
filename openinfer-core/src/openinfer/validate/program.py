"""Everything that is wrong with a program, of every phase, as data instead of an exception."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.diagnostics import Severity
from openinfer.ir.check import check_structure
from openinfer.plugins.environment import Environment
from openinfer.validate.findings import Findings
from openinfer.validate.resolve import check_against_model
from openinfer.validate.signature import signature_findings

if TYPE_CHECKING:
    from openinfer.diagnostics import Diagnostic
    from openinfer.dsl.reading import Reading
    from openinfer.model import Model


def program_findings(
    reading: Reading, *, model: Model | None = None, environment: Environment | None = None
) -> tuple[Diagnostic, ...]:
    """Return the independent findings of a program: errors by phase (P, B, S, V), then warnings by phase.

    Inside a phase they are in source order. Without a model, only the signatures of operators are checked of phase V.
    """
    offered = environment or Environment.default()
    if model is None:
        structure, doubts = check_structure(reading.graph, reading.doubts)
        later = (*reading.graph.warnings, *structure, *signature_findings(reading.graph, offered, doubts))
    else:
        findings = Findings(strict=False)
        check_against_model(reading.graph, model, findings, doubts=reading.doubts, environment=offered)
        later = tuple(findings.items)
    found = (*reading.errors, *later)
    return tuple(sorted(found, key=lambda finding: finding.severity is Severity.WARNING))
