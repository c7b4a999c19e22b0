"""Tokens of a text that parses, comments included: what a formatter puts together anew."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOKEN = re.compile(
    r'(?P<space>\s+)|(?P<comment>//[^\n]*)|(?P<open>/\*)|(?P<string>"(?:[^"\\\n]|\\[^\n])*")'
    r"|(?P<number>[0-9](?:[A-Za-z0-9_]|(?<=[eE])[-+](?=[0-9])|\.(?![.A-Za-z_]))*)|(?P<word>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<mark>>>|\.\.|.)"
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True)
class Token:
    """A token, and how many line ends stand in front of it.

    ``kind`` is comment, string, number, word or mark.
    """

    kind: str
    text: str
    lines_before: int
    start: int

    @property
    def is_comment(self) -> bool:
        return self.kind == "comment"


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a text in order."""
    position = lines = 0
    while (found := _TOKEN.match(text, position)) is not None:
        kind, start, position = found.lastgroup or "mark", found.start(), found.end()
        if kind == "space":
            lines += found.group().count("\n")
            continue
        if kind == "open":
            kind, position = "comment", _comment_end(text, position)
        yield Token(kind, text[start:position].rstrip(), lines, start)
        lines = 0


def _comment_end(text: str, position: int) -> int:
    depth = 1
    while depth and (edge := _COMMENT_EDGE.search(text, position)) is not None:
        depth += 1 if edge.group() == "/*" else -1
        position = edge.end()
    return position if depth == 0 else len(text)
