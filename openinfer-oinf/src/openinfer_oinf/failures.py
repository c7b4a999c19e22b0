"""Failures of commands: text for a terminal, and the document that `--json` prints."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from .errors import FILE, Finding, OinfError, shown


@dataclass(frozen=True)
class Failure:
    """A stable code, a message of one line that is safe on a terminal, and the exit code of the command."""

    code: str
    message: str
    exit_status: int
    findings: Sequence[Finding] = field(default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", shown(self.message))

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


def invalid_failure(error: OinfError, exit_status: int) -> Failure:
    """The failure of a command that a file, or what was requested of it, is at fault for."""
    source = f"{error.source}: " if error.source else ""
    return Failure(error.code, f"{source}{error.first.message}", exit_status, error.findings)


def file_failure(error: OSError, exit_status: int) -> Failure:
    """The failure of a command that the system is the reason of: what it says, and of which file."""
    message = f"{_text(error.filename)}: {error.strerror}" if error.filename else error.strerror or str(error)
    return Failure(FILE, message, exit_status)


def _text(filename: object) -> str:
    return filename.decode(errors="backslashreplace") if isinstance(filename, bytes) else str(filename)
