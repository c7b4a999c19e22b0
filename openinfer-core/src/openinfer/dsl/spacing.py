"""The one line of a declaration, statement or head: its tokens with canonical spacing and the usual spellings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.ir.language import ATTRIBUTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.dsl.tokens import Token

_CLOSING = {"(": ")", "[": "]", "{": "}"}


def line_of(words: Sequence[Token], *, declaration: bool = False) -> str:
    """Return the line of some tokens, of which ``;`` or ``{`` is the last."""
    texts = _usual_spellings([word.text for word in words]) if declaration else [word.text for word in words]
    if texts[0] == "constants" and len(texts) == 2:
        texts[0] = "constant"
    return _joined(texts)


def _usual_spellings(texts: list[str]) -> list[str]:
    """Return the tokens of a declaration with ``@`` in front of every attribute, and ``@ref`` for ``@reference``."""
    head = texts.index(":") + 2
    found = texts[:head]
    depth = 0
    for text in texts[head:]:
        if depth == 0 and text in ATTRIBUTES:
            found += [*(() if found[-1] == "@" else ("@",)), "ref" if text == "reference" else text]
        else:
            found.append(text)
        depth += (text in "([") - (text in ")]")
    return found


def _joined(texts: Sequence[str]) -> str:
    pieces: list[str] = []
    around: list[str] = []
    for position, text in enumerate(texts):
        before = texts[position - 1] if position else ""
        if around and text == _CLOSING.get(around[-1][0]):
            _without_last_comma(pieces, around[-1])
            around.pop()
            gap = " " if text == "}" else ""
        elif text == ";":
            _without_last_comma(pieces, "")
            gap = ""
        else:
            gap = _gap(before, text, around[-1] if around else "", texts)
        pieces.append(gap + text)
        if text in _CLOSING:
            around.append(_bracket(texts, position))
    return "".join(pieces)


def _bracket(texts: Sequence[str], position: int) -> str:
    """Return the bracket, ``[index`` where it contains indices: after a name that is not an element type."""
    before = texts[position - 1] if position else ""
    is_type = position > 1 and texts[position - 2] == ":"
    return "[index" if texts[position] == "[" and _is_word(before) and not is_type else texts[position]


def _without_last_comma(pieces: list[str], bracket: str) -> None:
    """Drop a trailing comma; in an access it is an empty slot."""
    if pieces and pieces[-1] == "," and bracket != "[index":
        pieces.pop()


def _gap(before: str, text: str, bracket: str, texts: Sequence[str]) -> str:
    """Return the white space between two tokens inside a bracket."""
    if before in ("", "(", "[", "@", ".") or text in (",", ":", "."):
        return ""
    if before == ",":
        return "" if bracket == "[index" else " "
    if "=" in (before, text):
        return " " if bracket == "{" else ""
    if ">>" in (before, text) or before in (":", "{") or text in ("@", "{"):
        return " "
    if text == "(":
        is_loop = (texts[0], texts[-1], bracket) == ("loop", "{", "")
        is_amount = (*texts[:2], bracket) == ("cache", ".", "")
        return " " if is_loop or is_amount or (before == "in" and bracket == "(") else ""
    if text == "[":
        return ""
    return " " if _ends_word(before) and _starts_word(text) else ""


def _is_word(text: str) -> bool:
    return text[:1].isalpha() or text[:1] == "_"


def _starts_word(text: str) -> bool:
    return text[0].isalnum() or text[0] in '_"'


def _ends_word(text: str) -> bool:
    return text != ".." and (text[-1].isalnum() or text[-1] in '_")]}.')
