"""Layout of program text: one statement a line, two spaces a level, canonical spacing; comments and order stay.

Literals and indices stay as they are written, which canonical text (`Graph.to_dsl`) does not promise; a canonical text
is left as it is.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from openinfer.diagnostics import Source
from openinfer.dsl.parser import parse_program
from openinfer.dsl.spacing import line_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.dsl.pieces import Piece
    from openinfer.dsl.tokens import Token

_INDENT = "  "


def formatted(text: str, *, name: str = "<text>") -> str:
    """Return the formatted text; formatting that again changes nothing.

    Comments inside a statement move in front of it. Older spellings of attributes and sections become the usual ones.

    Raises:
        DslSyntaxError: the text is not a program; all findings.
    """
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n")
    cut = parse_program(Source(name, plain)).cut
    layout = _Layout(plain)
    for piece, tokens in cut.with_tokens(cut.scan.tokens()):
        layout.add(piece, tokens)
    return layout.text()


class _Layout:
    """Lines so far; ``_last`` is the last token of a piece on the last line, ``//`` for a comment on its own."""

    def __init__(self, plain: str) -> None:
        self._plain = plain
        self._position = 0
        self._lines: list[str] = []
        self._level = 0
        self._last = "{"
        self._takes_comment = False

    def text(self) -> str:
        """Return the lines."""
        return "".join(f"{line}\n" for line in self._lines)

    def add(self, piece: Piece, tokens: Sequence[Token]) -> None:
        """Add the lines of the next piece; comments inside of it move in front."""
        words = [token for token in tokens if token.kind != "comment"]
        first = words[0].start if words else len(self._plain)
        for token in takewhile(lambda token: token.start < first, tokens):
            self._comment(token)
        if not words:
            return
        if piece.rule == "close_brace":
            self._level -= 1
        else:
            self._empty_line(words[0])
        for token in tokens:
            if token.kind == "comment" and token.start > first:
                self._line(token.text, "//")
        self._line(line_of(words, declaration=piece.rule == "declaration"), words[-1].text)
        self._level += words[-1].text == "{"
        self._position = words[-1].end

    def _comment(self, token: Token) -> None:
        if self._takes_comment and self._line_ends(token) == 0:
            self._lines[-1] += f"  {token.text}"
            self._takes_comment = token.text.startswith("/*") and "\n" not in token.text
        else:
            self._empty_line(token)
            self._line(token.text, "//")
        self._position = token.end

    def _line_ends(self, token: Token) -> int:
        """Return the number of line ends between the last token and the next."""
        return self._plain.count("\n", self._position, token.start)

    def _empty_line(self, token: Token) -> None:
        """Keep one empty line in front of a token where there were some; sections always have one between them."""
        between_sections = self._level == 0 and self._last == "}"
        if between_sections or (self._line_ends(token) > 1 and self._last != "{"):
            self._lines.append("")

    def _line(self, text: str, last: str) -> None:
        self._lines.append(f"{_INDENT * self._level}{text}")
        self._last = last
        self._takes_comment = last != "//"
