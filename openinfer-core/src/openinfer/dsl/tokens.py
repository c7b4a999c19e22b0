"""A text cut up: comments and what no statement can be made of first, then tokens by the grammar's own terminals.

The grammar is matched against the text with the former blanked out; the result has the same length, so offsets stay
true. A text is its tokens with white space between them: layout, upgrades and editors read nothing else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from openinfer.dsl.grammar import STRING, TOKEN
from openinfer.symbolic import MAX_DEPTH

_TOKEN = re.compile(TOKEN)
_PIECE = re.compile(
    rf'(?P<comment>//[^\n]*)|(?P<hash>#[^\n]*)|(?P<open>/\*)|(?P<string>{STRING})|(?P<quote>"[^\n]*)'
    r"|(?P<paren>[()])|(?P<end>[;{}])|(?P<bad>[^A-Za-z0-9_ \t\r\n\f\v;:,.=@(){}\[\]<>*/%+-]+)"
)
_CHARACTER_HINTS = {
    **dict.fromkeys("'\u2018\u2019\u201c\u201d\u201e«»`", 'strings are written in straight double quotes: "…"'),
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


class Token(NamedTuple):
    """A piece of a text without white space around it.

    ``kind`` is string, number, name, word, mark, comment, or flaw for what the language does not have.
    """

    kind: str
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class Scan:
    """A text with comments and flaws blanked out.

    Attributes:
        text: what is left, as long as the original.
        flaws: what is wrong with the characters, in order.
        blanked: the tokens that are not in ``text`` any more, in order.
    """

    text: str
    flaws: tuple[Flaw, ...]
    blanked: tuple[Token, ...]

    def tokens(self) -> list[Token]:
        """Return every token of the original text in order, comments and flaws included."""
        return sorted([*self.words(), *self.blanked], key=attrgetter("start"))

    def words(self) -> list[Token]:
        """Return the tokens that are neither a comment nor a flaw, in order."""
        return [Token(found.lastgroup or "", found.group(), found.start()) for found in _TOKEN.finditer(self.text)]


def scan(text: str) -> Scan:
    """Return the text with comments and illegal characters as spaces, with what was wrong."""
    pieces: list[str] = []
    flaws: list[Flaw] = []
    blanked: list[Token] = []
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
        is_comment = kind in ("comment", "open")
        blanked.append(Token("comment" if is_comment else "flaw", text[start:position].rstrip(), start))
        copied = position
    pieces.append(text[copied:])
    return Scan("".join(pieces), tuple(flaws), tuple(blanked))


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
