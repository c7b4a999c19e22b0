"""Everything that is wrong with a program, of every phase, as data instead of an exception."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openinfer.diagnostics import Severity
from openinfer.ir.check import check_structure
from openinfer.ir.findings import Findings
from openinfer.plugins.environment import Environment
from openinfer.validate.resolve import check_against_model, is_understood
from openinfer.validate.signature import signature_findings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from openinfer.diagnostics import Diagnostic
    from openinfer.dsl.reading import Reading
    from openinfer.ir.resolved import ResolvedGraph
    from openinfer.model import Model


@dataclass(frozen=True, slots=True)
class Checked:
    """A program's findings, as `program_findings` returns them; ``resolved`` if there is a model and no error."""

    findings: tuple[Diagnostic, ...]
    resolved: ResolvedGraph | None = None


def program_findings(
    reading: Reading,
    *,
    model: Model | None = None,
    environment: Environment | None = None,
    device: str | None = None,
) -> tuple[Diagnostic, ...]:
    """Return the independent findings of a program: errors by phase (P, B, S, V), then warnings by phase.

    Inside a phase they are in source order. Without a model, only the signatures of operators are checked of phase V;
    with one and a ``device``, that the device carries out every operator too.

    Raises:
        DeviceError: ``device`` is unknown.
    """
    return checked_program(reading, model=model, environment=environment, device=device).findings


def checked_program(
    reading: Reading,
    *,
    model: Model | None = None,
    environment: Environment | None = None,
    device: str | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Checked:
    """Return the findings of a program, and what it is with every size and type known where possible.

    Args:
        sizes: named sizes that take the place of the model's.
    """
    offered = environment or Environment.default()
    if model is None:
        structure, doubts = check_structure(reading.graph, reading.doubts)
        warnings = (warning for warning in reading.graph.warnings if not is_understood(warning, offered))
        later = (*warnings, *structure, *signature_findings(reading.graph, offered, doubts))
        return Checked(_errors_first((*reading.errors, *later)))
    findings = Findings()
    resolved = check_against_model(
        reading.graph, model, findings, doubts=reading.doubts, environment=offered, device=device, sizes=sizes
    )
    diagnostics = _errors_first((*reading.errors, *findings.items))
    if diagnostics and diagnostics[0].severity is Severity.ERROR:
        return Checked(diagnostics)
    return Checked(diagnostics, replace(resolved, warnings=tuple(findings.items)))


def _errors_first(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    return tuple(sorted(diagnostics, key=lambda finding: finding.severity is Severity.WARNING))
