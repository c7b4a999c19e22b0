"""Findings about a program: what was found, where in the text, and what to do about it."""

from __future__ import annotations

import difflib
import unicodedata
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


MOST_LISTED = 12
"""Names that a message lists at most."""


class Severity(Enum):
    """How grave a finding is. Strict mode turns warnings into errors, and leaves notes as they are."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Source:
    """A program text and the name under which diagnostics show it (a path, or ``<text>``)."""

    name: str
    text: str

    def position(self, offset: int) -> tuple[int, int]:
        """Return the 1-based line and column of a character offset."""
        line = self.text.count("\n", 0, offset) + 1
        start = self.text.rfind("\n", 0, offset) + 1
        return line, offset - start + 1

    def span(self, start: int, end: int) -> Span:
        """Return the span of the characters ``start`` (included) to ``end`` (excluded)."""
        line, column = self.position(start)
        return Span(self, start, end, line, column)


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a source: character offsets ``start`` to ``end`` (excluded); line and column count from 1."""

    source: Source
    start: int
    end: int
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Related:
    """Another place that a finding involves, such as the declaration of the variable that is used wrongly."""

    message: str
    span: Span


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One finding.

    Attributes:
        code: stable identifier of the kind of finding (explained in ``docs/errors.md``).
        message: one line, what was found and what was expected.
        severity: error or warning.
        span: the place in the program text, when there is one.
        hint: what to do about it, when that is known.
        related: other places involved.
        block, node_index, node_desc: the node of the graph that the finding is about, if any.
        path: JSON pointer of the place, when the program came from JSON; empty for the document as a whole.
        name: what the finding is about, where it has a name of its own: an attribute.
    """

    code: str
    message: str
    severity: Severity = Severity.ERROR
    span: Span | None = None
    hint: str | None = None
    related: tuple[Related, ...] = ()
    block: str | None = None
    node_index: int | None = None
    node_desc: str | None = None
    path: str | None = None
    name: str | None = None

    def __str__(self) -> str:
        place = f"{self.span}: " if self.span is not None else f"{self.path}: " if self.path else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{place}{self.severity.value}[{self.code}]: {self.message}{hint}"


def shortened(text: str, most: int = 120) -> str:
    """Return a text of up to ``most`` characters as it is; of a longer one its start and how long it is."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


_CUTOFF = 0.6
"""The least share of common letters of names that look alike: twice their number by all letters of both."""


def near_names(name: str, names: Iterable[str], count: int = 3) -> list[str]:
    """Return up to ``count`` of ``names`` that look like ``name``, best first; only case apart, those alone."""
    known = sorted(set(names))
    same = [other for other in known if other.lower() == name.lower()]
    # No more letters than those of the shorter name are common: most names need no closer look.
    long_enough = [other for other in known if _CUTOFF * (len(name) + len(other)) <= 2 * min(len(name), len(other))]
    if same or not long_enough:
        return same[:count]
    return difflib.get_close_matches(name, long_enough, n=count, cutoff=_CUTOFF)


def did_you_mean(name: str, names: Iterable[str]) -> str | None:
    """Return the hint "did you mean …?" for a misspelt name, or None when nothing is near."""
    near = near_names(name, names)
    return f"did you mean {' or '.join(f'`{n}`' for n in near)}?" if near else None


def near_or_known(name: str, names: Iterable[str], what: str = "there") -> str:
    """Return the hint "did you mean …?" for a misspelt name, or the first names that ``what`` are."""
    known = list(dict.fromkeys(names))
    more = len(known) - MOST_LISTED
    listed = ", ".join(known[:MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
    return did_you_mean(name, known) or f"{what} are {listed or 'none'}"


def counted(number: int, what: str) -> str:
    """Return ``1 node`` or ``2,000 nodes``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def summary(diagnostics: Sequence[Diagnostic]) -> str:
    """Return one line for several findings: the first, and how many more there are."""
    first = str(diagnostics[0])
    return first if len(diagnostics) == 1 else f"{first} (and {len(diagnostics) - 1} more)"


def in_source_order(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return findings by file and place; those without a place first, and otherwise in the order given."""
    return tuple(sorted(diagnostics, key=_place))


def _place(diagnostic: Diagnostic) -> tuple[str, int]:
    span = diagnostic.span
    return (span.source.name, span.start) if span is not None else ("", -1)


def as_errors(diagnostics: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return the findings as strict mode sees them: warnings as errors."""
    return tuple(
        diagnostic if diagnostic.severity is Severity.NOTE else replace(diagnostic, severity=Severity.ERROR)
        for diagnostic in diagnostics
    )


_COLOURS = {Severity.ERROR: "\x1b[31m", Severity.WARNING: "\x1b[33m", Severity.NOTE: "\x1b[36m"}


def render(diagnostic: Diagnostic, *, colour: bool = False, width: int | None = None) -> str:
    """Return the finding as several lines: head, source line, carets, related places and hint.

    Control characters of the program text are shown as escapes. ``colour`` adds ANSI colours. Source lines are cut to
    ``width`` columns, those of the terminal; without a terminal to a fixed width, so that output does not depend on it.
    """
    on, off = (_COLOURS[diagnostic.severity], "\x1b[0m") if colour else ("", "")
    lines = [f"{on}{diagnostic.severity.value}[{diagnostic.code}]{off}: {printable(diagnostic.message)}"]
    if diagnostic.span is not None:
        lines += _excerpt(diagnostic.span, width, on, off)
    elif diagnostic.path:
        lines.append(f"  --> {printable(diagnostic.path)}")
    elif diagnostic.block is not None:
        where = f"block {diagnostic.block}" + (f", node {diagnostic.node_desc}" if diagnostic.node_desc else "")
        lines.append(f"  --> {printable(where)}")
    for related in diagnostic.related:
        lines.append(f"  note: {printable(related.message)}")
        if related.span != diagnostic.span:
            lines += _excerpt(related.span, width, "", "")
    if diagnostic.hint:
        lines.append(f"  help: {printable(diagnostic.hint)}")
    return "\n".join(lines)


def printable(text: str) -> str:
    """Return ``text`` with control characters as escapes, so that it cannot steer a terminal."""
    if text.isprintable():
        return text
    return "".join(
        character if unicodedata.category(character) not in ("Cc", "Cf", "Cs") else _escape(character)
        for character in text
    )


def columns(text: str) -> int:
    """Return how many columns of a terminal a text fills: two for wide characters, none for combining ones."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


_WIDEST = 300
"""Columns of the longest line of a program that is shown in full where no terminal limits it."""

_NARROWEST = 20
"""Columns of a program that are shown on the narrowest of terminals."""


def _shortened(marked: str, left: str, right: str, room: int) -> tuple[str, str, str]:
    """Return the marked part of a line and what is near its ends in ``room`` columns, ``…`` for what is left out."""
    middle = _start(marked, max(room // 3, room - columns(left) - columns(right)))
    rest = room - columns(middle)
    before = _start(left[::-1], max(rest // 2, rest - columns(right)))[::-1]
    return middle, before, _start(right, rest - columns(before))


def _start(text: str, room: int) -> str:
    """Return what of a text fits into ``room`` columns."""
    if columns(text) <= room:
        return text
    used = 1
    for end, character in enumerate(text):
        used += columns(character)
        if used > room:
            return f"{text[:end]}…" if room > 0 else ""
    return text


def _excerpt(span: Span, width: int | None, on: str, off: str) -> list[str]:
    text = span.source.text
    start = text.rfind("\n", 0, span.start) + 1
    end = text.find("\n", start)
    line = text[start : len(text) if end < 0 else end].rstrip("\r")
    marked = text[span.start : min(span.end, start + len(line))]
    left, right = line[: span.column - 1], line[span.column - 1 + len(marked) :]
    number = str(span.line)
    room = _WIDEST if width is None else max(width - len(number) - len(" | "), _NARROWEST)
    if len(line) > 2 * room:
        left, marked, right = left[-2 * room :], marked[: 2 * room], right[: 2 * room]
    left, marked, right = (printable(part.replace("\t", " ")) for part in (left, marked, right))
    if columns(left + marked + right) > room:
        marked, left, right = _shortened(marked, left, right, room)
    margin = " " * len(number)
    return [
        f"{margin}--> {printable(str(span))}",
        f"{margin} |",
        f"{number} | {left}{marked}{right}",
        f"{margin} | {' ' * columns(left)}{on}{'^' * max(1, columns(marked))}{off}",
    ]
