"""Findings as JSON, for editors and other tools, and warnings printed in addition to the output of a command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from openinfer.diagnostics import printable
from openinfer.ir.text import node_desc
from openinfer.symbolic import text
from openinfer_oinf.progress import erase

if TYPE_CHECKING:
    from collections.abc import Iterable

    from openinfer.diagnostics import Diagnostic, Span
    from openinfer.validate.inference import InferredType


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


def type_as_json(found: InferredType) -> dict[str, Any]:
    """Return the type of a temporary as a plain object; an extent that only the running program knows is null."""
    return {
        "name": found.name,
        "dtype": found.dtype.name,
        "dims": [None if dim is None else text(dim) for dim in found.dims],
        "place": None if found.span is None else _place(found.span),
        "block": found.block,
        "node_index": found.node.index,
        "node_desc": node_desc(found.node),
    }


def print_unlogged_warnings(warnings: Iterable[Diagnostic]) -> None:
    """Print the warnings about a program that is about to run to standard error, each once, unless the log has them."""
    from openinfer.simulate.logs import LogKind, is_wanted

    if not is_wanted(LogKind.WARNING):
        print_warnings(warnings)


def print_warnings(warnings: Iterable[Diagnostic]) -> None:
    """Print warnings to standard error, each once and without what a terminal acts on."""
    erase()
    for line in dict.fromkeys(map(str, warnings)):
        click.echo(printable(line), err=True)


def _place(span: Span) -> dict[str, Any]:
    written = span.source.text
    end_line = span.line + written.count("\n", span.start, span.end)
    end_column = span.end - written.rfind("\n", 0, span.end)
    return {
        "file": span.source.name,
        "line": span.line,
        "column": span.column,
        "end_line": end_line,
        "end_column": end_column,
    }
