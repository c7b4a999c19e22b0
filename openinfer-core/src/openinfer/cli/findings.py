"""Findings as JSON, for editors and other tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
