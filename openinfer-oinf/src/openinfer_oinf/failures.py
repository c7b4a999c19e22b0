"""Failures of commands: text for a terminal, and the document that `--json` prints."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from .errors import FILE, Finding, OinfError, shown

_MOST_LINES = 5
"""Errors of one file that are shown as text; a document has all."""


@dataclass(frozen=True)
class Failure:
    """A stable code, a message of one line that is safe on a terminal, and the exit code of the command.

    `lines` is the failure as text where it is more than code and message.
    """

    code: str
    message: str
    exit_status: int
    findings: Sequence[Finding] = field(default=())
    lines: Sequence[str] = field(default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", shown(self.message))

    @property
    def text(self) -> str:
        """The failure as a person reads it."""
        return "\n".join(map(shown, self.lines)) if self.lines else f"error[{self.code}]: {self.message}"

    def to_json(self) -> dict[str, object]:
        """Plain data for `json.dumps`."""
        return {
            "code": self.code,
            "message": self.message,
            "exit_status": self.exit_status,
            "findings": [finding_json(each) for each in self.findings],
        }

    def document(self) -> str:
        """The JSON that a command prints instead of its result."""
        return json.dumps({"error": self.to_json()}, indent=1)


def finding_json(finding: Finding) -> dict[str, object]:
    """A finding as plain data."""
    return {
        "code": finding.code,
        "message": finding.message,
        "offset": finding.offset,
        "table": finding.table,
        "entry": finding.entry,
    }


def finding_text(finding: Finding, source: str = "") -> str:
    """A finding as a line, with the file that it is about if `source` names one."""
    severity = "error" if finding.is_error else "warning"
    return f"{severity}[{finding.code}]: {f'{source}: ' if source else ''}{finding.text}"


def invalid_failure(error: OinfError, exit_status: int) -> Failure:
    """The failure of a command that a file, or what was requested of it, is at fault for."""
    source = f"{error.source}: " if error.source else ""
    lines = [finding_text(finding, error.source) for finding in error.errors[:_MOST_LINES]]
    if len(error.errors) > _MOST_LINES:
        lines.append(f"and {len(error.errors) - _MOST_LINES} more errors")
    return Failure(error.code, f"{source}{error.first.message}", exit_status, error.findings, lines)


def file_failure(error: OSError, exit_status: int) -> Failure:
    """The failure of a command that the system is the reason of: what it says, and of which file."""
    reason = error.strerror or str(error)
    return Failure(FILE, f"{reason}: {_text(error.filename)}" if error.filename else reason, exit_status)


def _text(filename: object) -> str:
    return filename.decode(errors="backslashreplace") if isinstance(filename, bytes) else str(filename)
