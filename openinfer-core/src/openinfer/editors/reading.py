"""From the pieces of a program to its outline: which role each name has, statement by statement."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.diagnostics import Source
from openinfer.dsl.parser import recover_program
from openinfer.editors.outline import Definition, Occurrence, Outline, Role, Segment, Sort
from openinfer.editors.words import DTYPE_SETTINGS, DTYPES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.dsl.pieces import Cut, Piece
    from openinfer.dsl.tokens import Token

_FORMAL = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_DECLARED = (Sort.VARIABLE, Sort.TEMPORARY, Sort.INDEX)
"""What a name may be declared as, so that an output of that name defines nothing."""


def outline_of(text: str) -> Outline:
    """Return the outline of a program text, which may be anything."""
    return outline_of_cut(recover_program(Source("<text>", text)).cut)


def outline_of_cut(cut: Cut) -> Outline:
    """Return the outline of a text that was cut into its pieces."""
    reader = _Reader(cut.scan.text)
    for piece, tokens in cut.with_tokens(cut.scan.words()):
        if piece.rule in ("memory_header", "block_header", "end"):
            reader.close_all(piece.start)
        for segment, end in _segments(piece, tokens):
            reader.read(piece, segment, end)
    return reader.finished()


def _segments(piece: Piece, tokens: Sequence[Token]) -> Iterator[tuple[Segment, str]]:
    """Yield a piece without its last token, with that; a gap may hold several statements, all wrong together."""
    start, first, in_hints = piece.start, 0, False
    for place, token in enumerate(tokens):
        if piece.rule == "section" or token.kind != "mark" or token.text not in ";{}":
            continue
        if token.text == "{" and place - first > 2 and tokens[place - 1].text == "with":
            in_hints = True
        elif token.text == "}" and in_hints:
            in_hints = False
        else:
            in_hints = False
            yield Segment(piece.section, tokens[first:place], start, token.start), token.text
            start, first = token.end, place + 1
    if first < len(tokens) or not tokens:
        yield Segment(piece.section, tokens[first:], start, piece.end), ""


class _Reader:
    """Reads one program; the stack holds for every open body the definitions that end with it."""

    def __init__(self, text: str) -> None:
        self._outline = Outline(text)
        self._stack: list[tuple[Definition, ...]] = []
        self._outputs: list[Definition] = []

    def read(self, piece: Piece, segment: Segment, end: str) -> None:
        """Add the names of a part of a piece, which ends with that mark."""
        self._outline.segments.append(segment)
        opened: tuple[Definition, ...] = ()
        if segment.tokens and piece.rule == "block_header":
            self._block(self._hints(segment.tokens))
        elif segment.tokens and segment.section == "block":
            opened = self._statement(segment, piece.block)
        elif segment.tokens and segment.section:
            self._declaration(segment)
        if end == "{":
            self._stack.append(opened)
            return
        self._outline.definitions += opened
        if end == "}" and self._stack:
            self._close(segment.stop)

    def close_all(self, offset: int) -> None:
        """Close what is still open."""
        while self._stack:
            self._close(offset)

    def finished(self) -> Outline:
        """Return the outline."""
        declared = {found.name for found in self._outline.definitions if found.sort in _DECLARED}
        for output in self._outputs:
            if output.name not in declared:
                declared.add(output.name)
                self._outline.definitions.append(output)
        self._outline.complete()
        return self._outline

    def _close(self, offset: int) -> None:
        self._outline.definitions += [replace(definition, last=offset) for definition in self._stack.pop()]

    def _text(self, segment: Segment) -> str:
        """Return what a segment says, on one line."""
        return " ".join(self._outline.text[segment.tokens[0].start : segment.stop].split())

    # Occurrences

    def _add(self, token: Token, role: Role, context: str = "") -> None:
        self._outline.occurrences.append(Occurrence(token.text, token.start, token.end, role, context))

    def _values(self, tokens: Sequence[Token]) -> None:
        """Add the names of an expression or of a list; a name inside brackets knows the name before them."""
        bases: list[str] = []
        for place, token in enumerate(tokens):
            if token.text == "[":
                before = tokens[place - 1] if place else None
                bases.append(before.text if before is not None and before.kind == "name" else "")
            elif token.text == "]" and bases:
                bases.pop()
            elif token.kind == "name":
                self._add(token, Role.VALUE, bases[-1] if bases else "")

    def _hints(self, tokens: Sequence[Token]) -> Sequence[Token]:
        """Add the names of ``with { … }`` and return the tokens before it."""
        for place in range(len(tokens) - 1):
            if place > 1 and tokens[place].text == "with" and tokens[place + 1].text == "{":
                self._named(tokens[place + 2 :], Role.HINT, "")
                return tokens[:place]
        return tokens

    def _named(self, tokens: Sequence[Token], role: Role, context: str) -> None:
        """Add arguments, of which ``name=value`` names a setting or hint."""
        start = 0
        while start < len(tokens):
            end = _argument_end(tokens, start)
            argument = tokens[start:end]
            if len(argument) > 1 and argument[0].kind == "name" and argument[1].text == "=":
                self._add(argument[0], role, context)
                self._setting(argument[0].text, argument[2:])
            else:
                self._values(argument)
            start = end + 1

    def _setting(self, name: str, value: Sequence[Token]) -> None:
        names = [token for token in value if token.kind == "name"]
        if name in DTYPE_SETTINGS and all(token.text in DTYPES for token in names):
            for token in names:
                self._add(token, Role.DTYPE)
        else:
            self._values(value)

    # Heads and declarations

    def _block(self, tokens: Sequence[Token]) -> None:
        if len(tokens) > 1 and tokens[1].kind == "name":
            name = tokens[1]
            self._add(name, Role.BLOCK)
            self._outline.definitions.append(_definition(name, Sort.BLOCK, text=f"block {name.text}"))

    def _declaration(self, segment: Segment) -> None:
        name, *rest = segment.tokens
        if name.kind != "name":
            return
        formals = _formals(rest)
        names = tuple(token.text for token in formals)
        text = f"{self._text(segment)};"
        self._add(name, Role.VALUE)
        self._outline.definitions.append(
            _definition(name, Sort.VARIABLE, section=segment.section, text=text, formals=names)
        )
        counts = [token.text for token in _formals(rest[_find(rest, "auto_dim") + 1 :])]
        for formal in formals:
            section = "auto_dim" if formal.text in counts else ""
            text = f"index {formal.text} of {name.text}"
            self._add(formal, Role.FORMAL, name.text)
            self._outline.definitions.append(
                _definition(formal, Sort.FORMAL, section=section, owner=name.text, text=text)
            )
        self._type(rest[_find(rest, ":") + 1 :], name.text)

    def _type(self, tokens: Sequence[Token], owner: str) -> None:
        """Add what follows the colon of a declaration or ``assign``: element type, dimensions, attributes."""
        if tokens and tokens[0].kind == "name":
            self._add(tokens[0], Role.DTYPE)
        attribute = ""
        for place, token in enumerate(tokens[1:], 1):
            before = tokens[place - 1].text
            if token.kind == "string" and attribute == "pattern":
                self._pattern(token, owner)
            elif token.kind != "name":
                continue
            elif before not in ("(", "[", ",", "+", "-", "*", "/", "%", "="):
                attribute = token.text
                self._add(token, Role.ATTRIBUTE)
            elif not attribute:
                self._add(token, Role.SIZE)
            elif attribute in ("auto_dim", "fixed"):
                self._add(token, Role.FORMAL, owner)

    def _pattern(self, token: Token, owner: str) -> None:
        for match in _FORMAL.finditer(token.text):
            start, end = token.start + match.start(1), token.start + match.end(1)
            self._outline.occurrences.append(Occurrence(match[1], start, end, Role.FORMAL, owner))

    # Statements

    def _statement(self, segment: Segment, block: str) -> tuple[Definition, ...]:
        """Add the names of a statement; return the definitions that last as long as the body that it opens."""
        word, *rest = self._hints(segment.tokens)
        text = f"{self._text(segment)};"
        match word.text:
            case "op":
                self._op(rest)
            case "assign":
                self._assign(rest, text, block)
            case "loop":
                return self._loop(rest, segment, block)
            case "branch":
                self._branch(rest)
            case "cache":
                self._values(rest[2:] if rest and rest[0].text == "." else rest)
            case "dep":
                self._dep(rest)
            case "transfer" | "yield" | "await" | "return":
                self._values(rest)
            case _:
                pass
        if word.text in ("op", "transfer") or [token.text for token in (word, *rest[:2])] == ["cache", ".", "read"]:
            self._note_outputs(rest, text, block)
        return ()

    def _note_outputs(self, tokens: Sequence[Token], text: str, block: str) -> None:
        """Note what a statement outputs, which defines the names that nothing declares."""
        self._outputs += [
            _definition(token, Sort.TEMPORARY, section=block, text=text)
            for token in tokens[_find(tokens, ">>") + 1 :]
            if token.kind == "name"
        ]

    def _op(self, tokens: Sequence[Token]) -> None:
        if tokens and tokens[0].kind == "name":
            arrow = _find(tokens, ">>")
            self._add(tokens[0], Role.OP)
            self._named(_inside(tokens[1:arrow]), Role.SETTING, tokens[0].text)
            self._values(tokens[arrow + 1 :])

    def _assign(self, tokens: Sequence[Token], text: str, block: str) -> None:
        if tokens and tokens[0].kind == "name":
            self._add(tokens[0], Role.VALUE)
            self._outline.definitions.append(_definition(tokens[0], Sort.TEMPORARY, section=block, text=text))
            self._type(tokens[2:], tokens[0].text)

    def _loop(self, tokens: Sequence[Token], segment: Segment, block: str) -> tuple[Definition, ...]:
        if len(tokens) < 3 or tokens[0].kind != "name" or tokens[1].text != "(" or tokens[2].kind != "name":
            return ()
        name, index = tokens[0], tokens[2]
        self._add(name, Role.LOOP)
        self._add(index, Role.VALUE)
        self._values(tokens[4:])
        inside = _definition(index, Sort.INDEX, section=block, text=self._text(segment))
        inside = replace(inside, first=segment.stop, last=segment.stop)
        return replace(inside, name=name.text, sort=Sort.LOOP, start=name.start, end=name.end), inside

    def _branch(self, tokens: Sequence[Token]) -> None:
        names = [token for token in tokens if token.kind == "name"]
        roles = (Role.BLOCK,) if len(names) == 1 else (Role.VALUE, Role.BLOCK, Role.BLOCK)
        for token, role in zip(names, roles, strict=False):
            self._add(token, role)

    def _dep(self, tokens: Sequence[Token]) -> None:
        for before, token, after in zip(tokens, tokens[1:], tokens[2:], strict=False):
            if token.kind == "name" and (before.text, after.text) == ("(", ")"):
                self._add(token, Role.TARGET)


def _definition(
    token: Token, sort: Sort, *, text: str, section: str = "", owner: str = "", formals: tuple[str, ...] = ()
) -> Definition:
    """Return the definition that a name introduces at its place."""
    return Definition(token.text, sort, token.start, token.end, text, section, owner=owner, formals=formals)


def _find(tokens: Sequence[Token], text: str) -> int:
    """Return the place of the first token that says ``text``, or the end."""
    return next((place for place, token in enumerate(tokens) if token.text == text), len(tokens))


def _formals(tokens: Sequence[Token]) -> list[Token]:
    """Return the names in the parentheses that ``tokens`` begin with."""
    if not tokens or tokens[0].text != "(":
        return []
    end = next((place for place, token in enumerate(tokens) if token.text in (")", ":")), len(tokens))
    return [token for token in tokens[1:end] if token.kind == "name"]


def _inside(tokens: Sequence[Token]) -> Sequence[Token]:
    """Return the tokens in the parentheses that ``tokens`` begin with."""
    if not tokens or tokens[0].text != "(":
        return ()
    closes = len(tokens) > 1 and tokens[-1].text == ")"
    return tokens[1:-1] if closes else tokens[1:]


def _argument_end(tokens: Sequence[Token], start: int) -> int:
    """Return the place of the comma that ends an argument, or the end."""
    depth = 0
    for place in range(start, len(tokens)):
        text = tokens[place].text
        if text in ("(", "["):
            depth += 1
        elif text in (")", "]"):
            depth -= 1
        elif text == "," and depth <= 0:
            return place
    return len(tokens)
