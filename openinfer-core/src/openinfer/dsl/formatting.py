"""Layout of program text: one statement a line, two spaces a level, canonical spacing; comments and order stay.

Literals and indices stay as they are written, which canonical text (`Graph.to_dsl`) does not promise; a canonical text
is left as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from openinfer.diagnostics import Source
from openinfer.dsl.parser import parse_program
from openinfer.dsl.spacing import line_of
from openinfer.dsl.tokens import Token, tokens

_INDENT = "  "


def formatted(text: str, *, name: str = "<text>") -> str:
    """Return the text laid out anew; formatting that again changes nothing.

    Comments inside a statement move in front of it. Older spellings of attributes and sections become the usual ones.

    Raises:
        DslSyntaxError: the text is not a program; all findings.
    """
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n")
    parse_program(Source(name, plain))
    layout = _Layout()
    for token in tokens(plain):
        layout.add(token)
    return layout.text()


@dataclass
class _Layout:
    """Lines so far, and the statement that is being collected.

    ``_last`` says what the last line is: ``{`` or ``}``, ``;`` for a statement, ``//`` for a comment on its own.
    """

    _lines: list[str] = field(default_factory=list[str])
    _statement: list[Token] = field(default_factory=list[Token])
    _comments: list[Token] = field(default_factory=list[Token])
    _level: int = 0
    _in_memory: bool = False
    _in_hints: bool = False
    _last: str = "{"
    _takes_comment: bool = False

    def text(self) -> str:
        """Return the lines."""
        return "".join(f"{line}\n" for line in self._lines)

    def add(self, token: Token) -> None:
        """Take the next token."""
        if token.is_comment:
            self._comment(token)
        elif token.text == "{" and not self._opens_hints():
            self._open(token)
        elif token.text == "}" and not self._in_hints:
            self._close()
        elif token.text == ";":
            self._end(token)
        else:
            self._in_hints = (self._in_hints or token.text == "{") and token.text != "}"
            self._statement.append(token)

    def _opens_hints(self) -> bool:
        """Return whether ``{`` belongs to hints; a block or scope may itself be called `with`."""
        return len(self._statement) > 2 and self._statement[-1].text == "with"

    def _open(self, token: Token) -> None:
        is_memory = self._level == 0 and self._statement[0].text != "block"
        self._end(token)
        self._in_memory = is_memory
        self._level += 1

    def _close(self) -> None:
        for comment in self._comments:
            self._line(comment.text, "//")
        self._comments = []
        self._level -= 1
        self._in_memory = False
        self._line("}", "}")

    def _end(self, token: Token) -> None:
        words, comments = [*self._statement, token], self._comments
        self._statement, self._comments = [], []
        self._empty_line(words[0])
        for comment in comments:
            self._line(comment.text, "//")
        self._line(line_of(words, declaration=self._in_memory), token.text)

    def _comment(self, token: Token) -> None:
        if self._statement:
            self._comments.append(token)
        elif self._takes_comment and token.lines_before == 0:
            self._lines[-1] += f"  {token.text}"
            self._takes_comment = token.text.startswith("/*") and "\n" not in token.text
        else:
            self._empty_line(token)
            self._line(token.text, "//")

    def _empty_line(self, token: Token) -> None:
        """Keep one empty line in front of a token where there were some; sections always have one between them."""
        between_sections = self._level == 0 and self._last == "}"
        if between_sections or (token.lines_before > 1 and self._last != "{"):
            self._lines.append("")

    def _line(self, text: str, last: str) -> None:
        self._lines.append(f"{_INDENT * self._level}{text}")
        self._last = last
        self._takes_comment = last != "//"
