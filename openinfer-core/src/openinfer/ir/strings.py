r"""String literals of the language, both ways (``specification: language.text.8``).

Escapes are ``\" \\ \n \r \t \0 \xHH \u{H..H}``; the writer uses as few as possible.
"""

from __future__ import annotations

import re
import unicodedata

_SIMPLE = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t", "0": "\0"}
_NAMED = {character: f"\\{letter}" for letter, character in _SIMPLE.items()}
_ESCAPE = re.compile(r"\\(?:(?P<simple>[\"\\nrt0])|x(?P<byte>[0-9A-Fa-f]{2})|u\{(?P<code>[0-9A-Fa-f]{1,6})\})")


class EscapeError(ValueError):
    """An escape is none of the language's; ``offset`` and ``length`` place it inside the literal."""

    def __init__(self, escape: str, offset: int) -> None:
        super().__init__(f'bad escape `{escape}`: expected \\" \\\\ \\n \\r \\t \\0 \\xHH or \\u{{HEX}}')
        self.offset = offset
        self.length = len(escape)


def unescape(literal: str) -> str:
    """Return the text of a string literal, given with its quotes.

    Raises:
        EscapeError: an escape is not one of the language's.
    """
    if "\\" not in literal:
        return literal[1:-1]
    pieces: list[str] = []
    position, end = 1, len(literal) - 1
    while (backslash := literal.find("\\", position, end)) >= 0:
        character, after = _escape_at(literal, backslash)
        pieces += [literal[position:backslash], character]
        position = after
    pieces.append(literal[position:end])
    return "".join(pieces)


def _escape_at(literal: str, offset: int) -> tuple[str, int]:
    match = _ESCAPE.match(literal, offset)
    if match is None:
        raise EscapeError(literal[offset : offset + 2], offset)
    if match["simple"] is not None:
        return _SIMPLE[match["simple"]], match.end()
    code = int(match["byte"] or match["code"], 16)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise EscapeError(match.group(), offset)
    return chr(code), match.end()


def quoted(text: str) -> str:
    """Return a string literal whose value is ``text``."""
    return '"' + "".join(map(_written, text)) + '"'


def _written(character: str) -> str:
    named = _NAMED.get(character)
    if named is not None:
        return named
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return f"\\u{{{ord(character):x}}}"
    return character
