"""Findings as JSON, for editors and other tools, and warnings beside what a command prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from openinfer.diagnostics import printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from openinfer.diagnostics import Diagnostic, Span


def as_json(finding: Diagnostic) -> dict[str, Any]:
    """Return a finding as a plain object; what it does not have is null, lines and columns count from 1."""
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "message": finding.message,
        "hint": finding.hint,
        "place": None if finding.span is None else _place(finding.span),
        "related": [{"message": related.message, "place": _place(related.span)} for related in finding.related],
        "block": finding.block,
        "node_index": finding.node_index,
        "node_desc": finding.node_desc,
        "path": finding.path,
    }


def tell_warnings(warnings: Iterable[Diagnostic]) -> None:
    """Print the warnings about a program that is about to run to standard error, each once, unless the log has them."""
    from openinfer.simulate.logs import LogKind, is_wanted

    if not is_wanted(LogKind.WARNING):
        print_warnings(warnings)


def print_warnings(warnings: Iterable[Diagnostic]) -> None:
    """Print warnings to standard error, each once and without what a terminal acts on."""
    for line in dict.fromkeys(map(str, warnings)):
        click.echo(printable(line), err=True)


def _place(span: Span) -> dict[str, Any]:
    text = span.source.text
    end_line = span.line + text.count("\n", span.start, span.end)
    end_column = span.end - text.rfind("\n", 0, span.end)
    return {
        "file": span.source.name,
        "line": span.line,
        "column": span.column,
        "end_line": end_line,
        "end_column": end_column,
    }
