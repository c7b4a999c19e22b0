"""From the pieces of a program to its outline: which role each name has, statement by statement."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer.dsl.tokens import scan
from openinfer.editors.outline import Context, Definition, Occurrence, Outline, Role, Sort
from openinfer.editors.segments import segments_of
from openinfer.editors.words import DTYPE_SETTINGS, DTYPES, MEMORY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.dsl.tokens import Token
    from openinfer.editors.segments import Segment

_FORMAL = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


def outline_of(text: str) -> Outline:
    """Return the outline of a program text, which may be anything."""
    scanned = scan(text)
    outline = Outline(scanned.text)
    reader = _Reader(outline)
    for segment in segments_of(scanned.words(), len(text)):
        reader.read(segment)
    reader.finish()
    outline.complete()
    return outline


_DECLARED = (Sort.VARIABLE, Sort.TEMPORARY, Sort.INDEX)
"""What a name may be declared as, so that an output of that name defines nothing."""


class _Reader:
    """Reads one program; the stack holds what is open, each with the definitions that end with it."""

    def __init__(self, outline: Outline) -> None:
        self._outline = outline
        self._stack: list[tuple[Context, tuple[Definition, ...]]] = [(Context("top"), ())]
        self._outputs: list[Definition] = []

    def read(self, segment: Segment) -> None:
        """Add the names of the next piece."""
        context = self._stack[-1][0]
        self._outline.segments.append((context, segment))
        opened = self._opened(context, segment)
        if segment.end == "{":
            self._stack.append(opened)
        elif segment.end == "}" and len(self._stack) > 1:
            self._close(segment.stop)

    def finish(self) -> None:
        """Close what the text leaves open."""
        while len(self._stack) > 1:
            self._close(len(self._outline.text))
        declared = {found.name for found in self._outline.definitions if found.sort in _DECLARED}
        for output in self._outputs:
            if output.name not in declared:
                declared.add(output.name)
                self._outline.definitions.append(output)

    def _close(self, offset: int) -> None:
        for definition in self._stack.pop()[1]:
            self._outline.definitions.append(replace(definition, last=offset))

    def _opened(self, context: Context, segment: Segment) -> tuple[Context, tuple[Definition, ...]]:
        """Read a piece, and return what its ``{`` opens."""
        if not segment.tokens:
            return Context("unknown" if context.kind == "top" else context.kind, context.name), ()
        if context.kind == "top":
            return self._head(segment)
        if context.kind == "section":
            self._declaration(segment, context.name)
            return Context("unknown"), ()
        if context.kind == "body":
            return Context("body", context.name), self._statement(segment, context.name)
        return Context("unknown"), ()

    # Occurrences

    def _add(self, token: Token, role: Role, context: str = "") -> None:
        self._outline.occurrences.append(Occurrence(token.text, token.start, token.end, role, context))

    def _values(self, tokens: Sequence[Token], role: Role = Role.VALUE) -> None:
        """Add the names of an expression or of a list; a name inside brackets knows the name before them."""
        bases: list[str] = []
        for place, token in enumerate(tokens):
            if token.text == "[":
                before = tokens[place - 1] if place else None
                bases.append(before.text if before is not None and before.kind == "name" else "")
            elif token.text == "]" and bases:
                bases.pop()
            elif token.kind == "name":
                self._add(token, role, bases[-1] if bases else "")

    def _hints(self, tokens: Sequence[Token]) -> Sequence[Token]:
        """Add the names of ``with { … }`` and return the tokens before it."""
        for place in range(len(tokens) - 1):
            if tokens[place].text == "with" and tokens[place + 1].text == "{" and place:
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

    # Heads

    def _head(self, segment: Segment) -> tuple[Context, tuple[Definition, ...]]:
        tokens = self._hints(segment.tokens)
        if segment.first in MEMORY:
            return Context("section", segment.first.replace("constants", "constant")), ()
        if segment.first != "block" or len(tokens) < 2 or tokens[1].kind != "name":
            return Context("unknown"), ()
        name = tokens[1]
        self._add(name, Role.BLOCK)
        self._outline.definitions.append(
            Definition(name=name.text, sort=Sort.BLOCK, start=name.start, end=name.end, text=f"block {name.text}")
        )
        return Context("body", name.text), ()

    # Declarations

    def _declaration(self, segment: Segment, section: str) -> None:
        name, *rest = segment.tokens
        if name.kind != "name":
            return
        formals = _formals(rest)
        text = _one_line(self._outline.text[name.start : segment.stop])
        self._add(name, Role.VALUE)
        self._outline.definitions.append(
            Definition(
                name=name.text,
                sort=Sort.VARIABLE,
                start=name.start,
                end=name.end,
                section=section,
                text=f"{text};",
                formals=tuple(token.text for token in formals),
            )
        )
        counts = _counts(rest)
        for formal in formals:
            self._formal(formal, name.text, "auto_dim" if formal.text in counts else "")
        colon = next((place for place, token in enumerate(rest) if token.text == ":"), len(rest))
        self._type(rest[colon + 1 :], name.text)

    def _formal(self, token: Token, owner: str, section: str) -> None:
        self._add(token, Role.FORMAL, owner)
        self._outline.definitions.append(
            Definition(
                name=token.text,
                sort=Sort.FORMAL,
                start=token.start,
                end=token.end,
                section=section,
                owner=owner,
                text=f"index {token.text} of {owner}",
            )
        )

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
        match word.text:
            case "op":
                self._op(rest)
                self._note_outputs(rest, segment, block)
            case "assign":
                self._assign(rest, segment, block)
            case "loop":
                return self._loop(rest, segment, block)
            case "branch":
                self._branch(rest)
            case "cache":
                self._values(rest[2:] if rest and rest[0].text == "." else rest)
                if len(rest) > 1 and rest[1].text == "read":
                    self._note_outputs(rest, segment, block)
            case "dep":
                self._dep(rest)
            case "transfer":
                self._values(rest)
                self._note_outputs(rest, segment, block)
            case "yield" | "await" | "return":
                self._values(rest)
            case _:
                pass
        return ()

    def _note_outputs(self, tokens: Sequence[Token], segment: Segment, block: str) -> None:
        """Note what a statement outputs, which defines the names that nothing declares."""
        arrow = next((place for place, token in enumerate(tokens) if token.text == ">>"), len(tokens))
        text = f"{_one_line(self._outline.text[segment.tokens[0].start : segment.stop])};"
        for token in tokens[arrow + 1 :]:
            if token.kind == "name":
                self._outputs.append(
                    Definition(
                        name=token.text, sort=Sort.TEMPORARY, start=token.start, end=token.end, section=block, text=text
                    )
                )

    def _op(self, tokens: Sequence[Token]) -> None:
        if not tokens or tokens[0].kind != "name":
            return
        self._add(tokens[0], Role.OP)
        arrow = next((place for place, token in enumerate(tokens) if token.text == ">>"), len(tokens))
        self._named(_inside(tokens[1:arrow]), Role.SETTING, tokens[0].text)
        self._values(tokens[arrow + 1 :])

    def _assign(self, tokens: Sequence[Token], segment: Segment, block: str) -> None:
        if not tokens or tokens[0].kind != "name":
            return
        name = tokens[0]
        self._add(name, Role.VALUE)
        text = _one_line(self._outline.text[segment.tokens[0].start : segment.stop])
        self._outline.definitions.append(
            Definition(
                name=name.text, sort=Sort.TEMPORARY, start=name.start, end=name.end, section=block, text=f"{text};"
            )
        )
        self._type(tokens[2:], name.text)

    def _loop(self, tokens: Sequence[Token], segment: Segment, block: str) -> tuple[Definition, ...]:
        if len(tokens) < 3 or tokens[0].kind != "name" or tokens[1].text != "(" or tokens[2].kind != "name":
            return ()
        name, index = tokens[0], tokens[2]
        self._add(name, Role.LOOP)
        self._add(index, Role.VALUE)
        self._values(tokens[4:])
        text = _one_line(self._outline.text[segment.tokens[0].start : segment.stop])
        found = tuple(
            Definition(
                name=token.text,
                sort=sort,
                start=token.start,
                end=token.end,
                section=block,
                first=segment.stop,
                last=segment.stop,
                text=text,
            )
            for token, sort in ((name, Sort.LOOP), (index, Sort.INDEX))
        )
        if segment.end == "{":
            return found
        for definition in found:
            self._outline.definitions.append(definition)
        return ()

    def _branch(self, tokens: Sequence[Token]) -> None:
        names = [token for token in tokens if token.kind == "name"]
        roles = (Role.BLOCK,) if len(names) == 1 else (Role.VALUE, Role.BLOCK, Role.BLOCK)
        for token, role in zip(names, roles, strict=False):
            self._add(token, role)

    def _dep(self, tokens: Sequence[Token]) -> None:
        for place, token in enumerate(tokens):
            around = (
                tokens[place - 1].text if place else "",
                tokens[place + 1].text if place + 1 < len(tokens) else "",
            )
            if token.kind == "name" and around == ("(", ")"):
                self._add(token, Role.TARGET)


def _formals(tokens: Sequence[Token]) -> list[Token]:
    """Return the names in the parentheses that ``tokens`` begin with."""
    if not tokens or tokens[0].text != "(":
        return []
    end = next((place for place, token in enumerate(tokens) if token.text in (")", ":")), len(tokens))
    return [token for token in tokens[1:end] if token.kind == "name"]


def _counts(tokens: Sequence[Token]) -> list[str]:
    """Return the names in ``auto_dim(…)``."""
    place = next((place for place, token in enumerate(tokens) if token.text == "auto_dim"), len(tokens))
    return [token.text for token in _formals(tokens[place + 1 :])]


def _inside(tokens: Sequence[Token]) -> Sequence[Token]:
    """Return what stands in the parentheses that ``tokens`` begin with."""
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


def _one_line(text: str) -> str:
    return " ".join(text.split())
