"""First pass over a text: blank out comments, and find what no statement can be made of.

The result has the length of the text, so offsets stay true.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from openinfer.symbolic import MAX_DEPTH

_PIECE = re.compile(
    r'(?P<comment>//[^\n]*)|(?P<hash>#[^\n]*)|(?P<open>/\*)|(?P<string>"(?:[^"\\\n]|\\[^\n])*")|(?P<quote>"[^\n]*)'
    r"|(?P<paren>[()])|(?P<end>[;{}])|(?P<bad>[^A-Za-z0-9_ \t\r\n\f\v;:,.=@(){}\[\]<>*/%+-]+)"
)
_CHARACTER_HINTS = {
    **dict.fromkeys("'\u2018\u2019\u201c\u201d\u201e«»`", 'strings stand in straight double quotes: "…"'),
    "!": "`graph! { … }` is earlier syntax: a program is its memory sections and blocks; "
    "`openinfer fmt --upgrade` rewrites it",
}
_NAMES_HINT = "names are made of ASCII letters, digits and `_`; @ref links one to a model tensor of any name"
_OPEN_STRING_END = re.compile(r"[;{][ \t\r\f\v]*$")
"""What ends the statement or head around a string without an end, so that the next line is read by itself."""

_COMMENT_EDGE = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True)
class Flaw:
    """Something wrong with the characters themselves."""

    code: str
    message: str
    start: int
    end: int
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Scan:
    """The text without comments, and its flaws in order."""

    text: str
    flaws: tuple[Flaw, ...]


def scan(text: str) -> Scan:
    """Return the text with comments and illegal characters as spaces, with what was wrong."""
    pieces: list[str] = []
    flaws: list[Flaw] = []
    position = copied = depth = 0
    in_string = False
    while (match := _PIECE.search(text, position)) is not None:
        kind, start, position = match.lastgroup, match.start(), match.end()
        if kind == "paren":
            depth += 1 if match.group() == "(" else -1
            if depth == MAX_DEPTH + 2:
                flaws.append(Flaw("syntax", f"nesting too deep: over {MAX_DEPTH} parentheses", start, position))
            continue
        if kind == "end":
            depth, in_string = 0, False
            continue
        if kind == "open":
            position = _comment_end(text, position)
            if position > len(text):
                flaws.append(Flaw("syntax", "comment without an end: expected `*/`", start, start + 2))
                position = len(text)
        flaw = _flaw(kind, match.group(), start)
        if kind == "quote":
            position = start + len(_OPEN_STRING_END.sub("", match.group()))
            # The end of a string that goes on over lines looks like the start of another.
            flaw, in_string = None if in_string else flaw, not in_string
        if flaw is not None:
            flaws.append(flaw)
        if kind == "string":
            continue
        pieces += [text[copied:start], _blank(text[start:position])]
        copied = position
    pieces.append(text[copied:])
    return Scan("".join(pieces), tuple(flaws))


def _comment_end(text: str, position: int) -> int:
    """Return where the comment opened before ``position`` ends: the end of the text plus one if it never does."""
    depth = 1
    while depth:
        edge = _COMMENT_EDGE.search(text, position)
        if edge is None:
            return len(text) + 1
        depth += 1 if edge.group() == "/*" else -1
        position = edge.end()
    return position


def _flaw(kind: str | None, found: str, start: int) -> Flaw | None:
    if kind == "quote":
        return Flaw("bad-string", 'string without an end: expected `"` on the same line', start, start + len(found))
    if kind == "hash":
        return Flaw("syntax", "unexpected character '#'", start, start + 1, "comments start with `//`")
    if kind == "bad":
        hint = _NAMES_HINT if found[0].isalpha() else _CHARACTER_HINTS.get(found[0])
        return Flaw("syntax", f"unexpected character {found[0]!r}", start, start + 1, hint)
    return None


def _blank(piece: str) -> str:
    return " " * len(piece) if "\n" not in piece else "".join(c if c == "\n" else " " for c in piece)
