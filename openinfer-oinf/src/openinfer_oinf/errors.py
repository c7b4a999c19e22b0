"""What can be wrong with a container: one finding, all findings of a check, and the error that carries them."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, cast

CheckLevel = Literal["strict", "compat"]

MISSING_EXTRA = "E_EXTRA"
NOT_A_FILE = "E_NOT_A_FILE"
USAGE = "E_USAGE"
FILE = "E_FILE"

_SHOWN_IN_MESSAGE = 5
# Control and format characters, halves of surrogate pairs (bytes of file names that are not UTF-8), line separators.
_STEERING = ("Cc", "Cf", "Cs", "Zl", "Zp")

# What a reader can survive without losing memory safety: warnings under check="compat".
_RELAXED = frozenset(
    {
        "E_HEADER_FLAGS",
        "E_RESERVED",
        "E_PADDING",
        "E_SECTION_GAP",
        "E_HOLE",
        "E_VALUE",
        "E_QUANT_VALUE",
    }
)


def printable(text: str) -> str:
    """Text with control characters and everything beyond ASCII as escapes, safe on a terminal."""
    return "".join(char if " " <= char <= "~" else _escape(char) for char in text)


def shown(text: str) -> str:
    """Text with what steers a terminal, breaks lines or cannot be written as escapes; letters of all scripts stay."""
    return "".join(char if unicodedata.category(char) not in _STEERING else _escape(char) for char in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing found in a container, or in what was to be written to one.

    `code` begins with `E_` (error) or `W_` (warning); `offset` is a byte offset in the file.
    """

    code: str
    message: str
    offset: int | None = None
    table: str | None = None
    entry: str | None = None
    found: object = None
    expected: object = None

    @property
    def is_error(self) -> bool:
        return self.code.startswith("E_")

    @property
    def text(self) -> str:
        """What was found, with values and place, without the code."""
        place = [
            f"{self.table} table" if self.table else "",
            f"entry {self.entry!r}" if self.entry is not None else "",
            f"byte {self.offset}" if self.offset is not None else "",
        ]
        where = ", ".join(part for part in place if part)
        values = f" (found {self.found}, expected {self.expected})" if self.expected is not None else ""
        return f"{shown(self.message)}{values}" + (f" [{where}]" if where else "")

    def __str__(self) -> str:
        return f"{self.code}: {self.text}"


class OinfError(ValueError):
    """Every failure of the container; `findings` holds all that was found, errors and warnings."""

    def __init__(self, *findings: Finding, source: str = "") -> None:
        super().__init__(*findings)
        self.findings: tuple[Finding, ...] = findings
        self.source = source

    @property
    def first(self) -> Finding:
        """The first error, which gives the exception its code and place."""
        return next((finding for finding in self.findings if finding.is_error), self.findings[0])

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The errors among the findings; all findings where none is an error."""
        return tuple(finding for finding in self.findings if finding.is_error) or self.findings

    @property
    def code(self) -> str:
        return self.first.code

    @property
    def offset(self) -> int | None:
        return self.first.offset

    @property
    def table(self) -> str | None:
        return self.first.table

    @property
    def entry(self) -> str | None:
        return self.first.entry

    def __str__(self) -> str:
        errors = self.errors
        lines = [str(finding) for finding in errors[:_SHOWN_IN_MESSAGE]]
        if len(errors) > _SHOWN_IN_MESSAGE:
            lines.append(f"and {len(errors) - _SHOWN_IN_MESSAGE} more errors")
        return (f"{shown(self.source)}: " if self.source else "") + "\n".join(lines)


@contextmanager
def naming_source(source: object) -> Generator[None]:
    """Name the source, if it is a path, in errors of the block that name no file."""
    try:
        yield
    except OinfError as error:
        if isinstance(source, str | os.PathLike) and not error.source:
            error.source = str(os.fspath(cast("str | os.PathLike[str]", source)))
        raise


class UninitializedError(OinfError):
    """The values of a tensor were requested that the file declares without data."""


class AbsentNameError(OinfError, KeyError):
    """The requested tensor or metadata key is not in the file; a `KeyError`, as mappings raise."""


class Findings:
    """Collects findings during a check; errors that are harmless to memory are warnings under "compat"."""

    def __init__(self, check: CheckLevel = "strict", *, limit: int = 1000) -> None:
        self._check = check
        self._limit = limit
        self._errors = 0
        self._unheard = 0
        self._items: list[Finding] = []

    @property
    def has_errors(self) -> bool:
        return self._errors > 0

    def __len__(self) -> int:
        return len(self._items)

    def add(self, finding: Finding) -> None:
        """Record a finding; raise `OinfError` when there are more errors than anybody would read.

        Warnings beyond that number are only counted, so that a file cannot make its reader collect without end.
        """
        if self._check == "compat" and finding.code in _RELAXED:
            finding = Finding(
                code="W" + finding.code[1:],
                message=finding.message,
                offset=finding.offset,
                table=finding.table,
                entry=finding.entry,
                found=finding.found,
                expected=finding.expected,
            )
        self._errors += finding.is_error
        if len(self._items) < self._limit or finding.is_error:
            self._items.append(finding)
        else:
            self._unheard += 1
        if len(self._items) >= self._limit and self.has_errors:
            raise OinfError(*self._items)

    def extend(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self.add(finding)

    def warnings(self) -> tuple[Finding, ...]:
        warnings = tuple(item for item in self._items if not item.is_error)
        if not self._unheard:
            return warnings
        return (*warnings, Finding(code="W_MORE", message=f"and {self._unheard} more warnings"))

    def raise_errors(self) -> None:
        """Raise `OinfError` with everything found so far, if any of it is an error."""
        if self.has_errors:
            raise OinfError(*self._items)
