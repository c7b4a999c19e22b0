"""What a program says as far as it can be read, with the findings of every phase that needs nothing else.

Findings are reported in the order of the phases P, B and S, and inside a phase in source order. What is wrong in one
phase is left out of the next, so that no finding is a mere consequence of another.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openinfer.diagnostics import Diagnostic, Severity, Source, as_errors, summary
from openinfer.dsl.lower import lower
from openinfer.dsl.mismatch import syntax_error
from openinfer.dsl.parser import recover_program
from openinfer.errors import GraphError, ValidationError
from openinfer.ir.check import check_structure
from openinfer.ir.doubts import NO_DOUBTS, Doubts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.dsl.pieces import Cut
    from openinfer.dsl.syntax import Program
    from openinfer.dsl.value_lowering import Spans
    from openinfer.ir.graph import Graph


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A program as far as it could be read.

    Attributes:
        source: the text; empty if the program was made by calls.
        graph: what is certain of it; its warnings are those of phases P and B.
        syntax, building: errors of phases P and B.
        doubts: what these leave open.
        expected: what was expected at the first syntax error, in a person's words.
        cut: the pieces of the text, for editors; None if the program was made by calls.
    """

    source: Source
    graph: Graph
    syntax: tuple[Diagnostic, ...] = ()
    building: tuple[Diagnostic, ...] = ()
    doubts: Doubts = NO_DOUBTS
    expected: tuple[str, ...] = ()
    cut: Cut | None = None

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        return (*self.syntax, *self.building)


def read(source: Source) -> Reading:
    """Read a program text."""
    parsed = recover_program(source)
    built = lower(parsed.program)
    return Reading(
        source=source,
        graph=built.graph,
        syntax=parsed.errors,
        building=built.errors,
        doubts=built.doubts,
        expected=parsed.expected,
        cut=parsed.cut,
    )


def read_tree(program: Program, positions: Spans) -> Reading:
    """Read a syntax tree that was made without text."""
    built = lower(program, positions)
    return Reading(source=program.source, graph=built.graph, building=built.errors, doubts=built.doubts)


def finished(reading: Reading, *, check: bool, strict: bool) -> Graph:
    """Return the graph of a reading without errors, with the warnings of every phase that was checked.

    With an error in phase P or B, the errors of later phases are reported too.

    Raises:
        DslSyntaxError, GraphError, ValidationError: for an error of phase P, B or (with ``check``) S: the class of the
            first phase that has one; all findings. In strict mode warnings are errors.
    """
    syntax, building = reading.syntax, reading.building
    if strict:
        syntax, building = _with_warnings(syntax, building, reading.graph.warnings)
    if not check and not syntax and not building:
        return reading.graph
    structure = _structure(reading, check=check, strict=strict)
    errors = [finding for finding in structure if finding.severity is Severity.ERROR]
    warnings = [finding for finding in structure if finding.severity is Severity.WARNING]
    if syntax:
        raise syntax_error(reading.source, (*syntax, *building, *errors), reading.expected)
    if building:
        raise GraphError(summary([*building, *errors]), diagnostics=(*building, *errors))
    if errors:
        raise ValidationError(summary(errors), diagnostics=(*errors, *warnings))
    return replace(reading.graph, warnings=(*reading.graph.warnings, *warnings))


def _with_warnings(
    syntax: Sequence[Diagnostic], building: Sequence[Diagnostic], warnings: Sequence[Diagnostic]
) -> tuple[tuple[Diagnostic, ...], tuple[Diagnostic, ...]]:
    """Return the errors of phases P and B as strict mode sees them."""
    of_syntax = [warning for warning in warnings if warning.code == "old-spelling"]
    of_building = [warning for warning in warnings if warning.code != "old-spelling"]
    return (*syntax, *as_errors(of_syntax)), (*building, *as_errors(of_building))


def _structure(reading: Reading, *, check: bool, strict: bool) -> Sequence[Diagnostic]:
    """Return the findings of phase S; those that nobody asked to check for must not be about a piece of a program."""
    findings, _ = check_structure(reading.graph, reading.doubts)
    if not check:
        return [finding for finding in findings if finding.code != "missing-entry"]
    return as_errors(findings) if strict else findings
