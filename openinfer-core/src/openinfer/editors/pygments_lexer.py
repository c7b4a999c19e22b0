"""A lexer of the language for Pygments: documentation, notebooks, terminals.

Keywords are contextual (a variable may be called ``op``), so the colours come from the outline of the text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pygments.lexer import Lexer
from pygments.token import Comment, Error, Keyword, Name, Number, Operator, Punctuation, String, Whitespace

from openinfer.diagnostics import Source
from openinfer.dsl.parser import recover_program
from openinfer.editors.outline import Role, Sort
from openinfer.editors.reading import outline_of_cut
from openinfer.editors.words import DTYPES, INTEGER, MEMORY, STATEMENTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.dsl.tokens import Token
    from openinfer.editors.outline import Outline

__all__ = ["OpenInferLexer"]

_STRING_PART = re.compile(r"(?P<escape>\\(?:x[0-9A-Fa-f]{2}|u\{[0-9A-Fa-f]+\}|[^\n]))|[^\\]+")
_COMMENT_PART = re.compile(r"/\*|\*/|(?:(?!/\*|\*/).)+", re.DOTALL)
_ROLES = {Role.OP: Name.Builtin, Role.ATTRIBUTE: Name.Decorator}
_VARIABLES = (Sort.VARIABLE, Sort.TEMPORARY, Sort.INDEX)
_SORTS = {**dict.fromkeys(_VARIABLES, Name.Variable), Sort.LOOP: Name.Label, Sort.BLOCK: Name.Function}
_OPERATORS = frozenset({">>", "..", "-", "+", "*", "/", "%", "="})
_PUNCTUATION = frozenset("()[]{},;:.@")


class OpenInferLexer(Lexer):
    """Highlights OpenInfer programs (``.oi``)."""

    name = "OpenInfer"
    aliases = ("openinfer", "oi")
    filenames = ("*.oi",)
    mimetypes = ("text/x-openinfer",)

    def get_tokens_unprocessed(self, text: str) -> Iterator[tuple[int, Any, str]]:
        """Yield offset, type and text of every piece of a text."""
        cut = recover_program(Source("<text>", text)).cut
        known = _known(outline_of_cut(cut))
        position = 0
        for token in cut.scan.tokens():
            if token.start > position:
                yield position, Whitespace, text[position : token.start]
            yield from _parts(token, known)
            position = token.end
        if position < len(text):
            yield position, Whitespace, text[position:]


def _parts(token: Token, known: dict[int, Any]) -> Iterator[tuple[int, Any, str]]:
    if token.kind == "string":
        for part in _STRING_PART.finditer(token.text):
            kind = String.Double if part["escape"] is None else String.Escape
            yield token.start + part.start(), kind, part.group()
    elif token.kind == "comment" and token.text.startswith("/*"):
        for part in _COMMENT_PART.finditer(token.text):
            yield token.start + part.start(), Comment.Multiline, part.group()
    else:
        yield token.start, known.get(token.start) or _alone(token), token.text


def _alone(token: Token) -> Any:
    """Return the type of a token that does not depend on its context."""
    match token.kind:
        case "comment":
            return Comment.Single
        case "name":
            return Name
        case "mark" if token.text in _OPERATORS:
            return Operator
        case "mark" if set(token.text) <= _PUNCTUATION:
            return Punctuation
        case "number" if token.text[0].isdigit():
            return Number.Integer if re.fullmatch(INTEGER, token.text) else Number.Float
        case "number" | "word" if token.text[0].isalpha():
            return Keyword.Constant
        case _:
            return String.Double if token.text.startswith('"') else Error


def _known(outline: Outline) -> dict[int, Any]:
    """Return the types that tokens have because of their context, by their offsets."""
    found: dict[int, Any] = {}
    for segment in outline.segments:
        for before, token in zip(segment.tokens, segment.tokens[1:], strict=False):
            if before.kind == "name" and token.text == "=":
                found[before.start] = Name.Attribute
            elif before.text == "@":
                found[before.start] = Name.Decorator
        found |= dict.fromkeys(_keywords(segment.tokens, segment.section), Keyword)
        if segment.tokens and not segment.section and segment.tokens[0].text in (*MEMORY, "block"):
            found[segment.tokens[0].start] = Keyword.Declaration
    for occurrence in outline.occurrences:
        if occurrence.role in _ROLES:
            found[occurrence.start] = _ROLES[occurrence.role]
        elif occurrence.role is Role.DTYPE and occurrence.name in DTYPES:
            found[occurrence.start] = Keyword.Type
    for definition in outline.definitions:
        is_output = definition.sort is Sort.TEMPORARY and not definition.text.startswith("assign")
        if definition.sort in _SORTS and not is_output:
            found[definition.start] = _SORTS[definition.sort]
    return found


def _keywords(tokens: Sequence[Token], section: str) -> Iterator[int]:
    """Yield the offsets of the keywords of a head or statement."""
    if not tokens or section not in ("", "block"):
        return
    word = tokens[0].text if section else ""
    if word in STATEMENTS:
        yield tokens[0].start
    for place, token in enumerate(tokens[1:], 1):
        after = tokens[place + 1].text if place + 1 < len(tokens) else ""
        is_hints = place > 1 and (token.text, after) == ("with", "{")
        is_dep = word == "dep" and token.text in ("after", "before") and after == "("
        if is_hints or is_dep or (word, place) == ("cache", 2) or (word, place, token.text) == ("loop", 4, "in"):
            yield token.start
