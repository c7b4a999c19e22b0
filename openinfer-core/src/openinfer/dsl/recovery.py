"""Where parsing resumes after an error."""

from __future__ import annotations

import re

from openinfer.dsl.grammar import SPACE, STATEMENTS, STRING

_BLANK = re.compile(SPACE)
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_STATEMENT_LINE = rf"(?<=\n)[ \t]*(?:{'|'.join(STATEMENTS)})(?:[ \t]*[.;]|[ \t]+[A-Za-z_])"
_STOP = re.compile(rf"{STRING}|[;{{}}]|{_STATEMENT_LINE}")
_HEADS = ("loop", "scope", "block")
_MORE_HINTS = re.compile(rf"{SPACE}(?:\}}|[A-Za-z_][A-Za-z0-9_]*{SPACE}=(?!{SPACE}(?:op|effect)\b))")
"""What follows a ``;`` that was written for the ``,`` between hints."""

_SECTION_START = re.compile(
    r"^[ \t]*(?:dynamic|volatile|constants?|persistent|block|inputs|outputs|state)(?![A-Za-z0-9_])", re.MULTILINE
)


def next_section(text: str, offset: int) -> int:
    """Return the offset of the next line after ``offset`` that starts a section, or the end."""
    found = _SECTION_START.search(text, offset + 1)
    return found.start() if found is not None else len(text)


def next_statement(text: str, start: int, failed: int) -> int:
    """Return where the statement or declaration after a wrong one starts.

    That is the place of the failure if a statement starts a line there (a ``;`` was forgotten), else after the ``;``
    or ``{ … }`` that ends the wrong one, or before the next line that starts as a statement. After the head of a
    loop, scope or block it is after its ``{``, so that the body is parsed. A ``}`` that closes the enclosing
    body is not skipped.

    Args:
        start: where the wrong statement starts.
        failed: where it stops making sense.
    """
    if failed > start and _starts_statement(text, failed):
        return failed
    inside = [stop.group() for stop in _STOP.finditer(text, start, failed)]
    hints = depth = max(0, inside.count("{") - inside.count("}"))
    is_head = _word_at(text, start) in _HEADS
    for stop in _STOP.finditer(text, failed):
        found = stop.group()
        if found == "{":
            if is_head and depth == 0:
                return stop.end()
            depth += 1
        elif found == "}":
            if depth == 0:
                return stop.start()
            depth -= 1
            if depth == 0 and not (is_head and _next_is(text, stop.end(), "{")):
                return _past_semicolon(text, stop.end())
        elif found == ";" and depth == hints:
            if not (hints and _MORE_HINTS.match(text, stop.end())):
                return stop.end()
        elif found not in ";" and found[0] != '"' and depth == hints and stop.start() > start:
            return stop.start()
    return len(text)


def _starts_statement(text: str, offset: int) -> bool:
    """Return whether a statement keyword, or a declaration, starts a line at ``offset``."""
    line = text.rfind("\n", 0, offset) + 1
    if line == 0 or text[line:offset].strip():
        return False
    word = _word_at(text, offset)
    return word in STATEMENTS or (word != "" and text[offset + len(word) : offset + len(word) + 1] in (":", "("))


def _word_at(text: str, offset: int) -> str:
    found = _WORD.match(text, offset)
    return found.group() if found is not None else ""


def skip_blank(text: str, offset: int) -> int:
    """Return the offset of the next character that is not white space."""
    found = _BLANK.match(text, offset)
    return found.end() if found is not None else offset


def _next_is(text: str, offset: int, character: str) -> bool:
    return text.startswith(character, skip_blank(text, offset))


def _past_semicolon(text: str, offset: int) -> int:
    """Return ``offset``, or the offset after a ``;`` if that comes next."""
    return skip_blank(text, offset) + 1 if _next_is(text, offset, ";") else offset
