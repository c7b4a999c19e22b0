"""Model data of the earlier syntax, ``model["name"]`` and ``model[fmt("name{index}")]``, by the variables of today.

A use becomes the name of the variable that is declared for these data: one of that name, or one with an ``@ref`` or a
``@pattern`` to it. Without a declaration, a finding names the one to write: its type is in the model alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING

from openinfer.diagnostics import Diagnostic, Source, summary
from openinfer.dsl.positions import Positions
from openinfer.errors import DslSyntaxError
from openinfer.ir.strings import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.dsl.tokens import Token

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACES = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class ModelUse:
    """A use: characters ``start`` to ``end`` (excluded) of the text mean ``data``, a name or a pattern with braces."""

    start: int
    end: int
    data: str
    is_pattern: bool


def model_uses(words: Sequence[Token]) -> Iterator[ModelUse]:
    """Yield every use of model data in a text's tokens, comments left out."""
    for position, word in enumerate(words):
        texts = [token.text for token in words[position : position + 7]]
        if texts[:2] != ["model", "["] or len(texts) < 4:
            continue
        if words[position + 2].kind == "string" and texts[3] == "]":
            yield _use(word, words[position + 3], texts[2], is_pattern=False)
        elif texts[2:4] == ["fmt", "("] and texts[5:7] == [")", "]"] and words[position + 4].kind == "string":
            yield _use(word, words[position + 6], texts[4], is_pattern=True)


def _use(first: Token, last: Token, literal: str, *, is_pattern: bool) -> ModelUse:
    return ModelUse(first.start, last.end, literal[1:-1], is_pattern)


@dataclass(frozen=True, slots=True)
class Declared:
    """A variable, and the formals after its name."""

    name: str
    formals: tuple[str, ...] = ()


def linked(words: Sequence[Token]) -> dict[str, Declared]:
    """Return variables by the model data that they are declared for."""
    found: dict[str, Declared] = {}
    owner: Declared | None = None
    for position, (before, word, after, inside) in enumerate(zip(words, words[1:], words[2:], words[3:], strict=False)):
        if before.text in ("{", ";"):
            is_declaration = after.text in (":", "(") and word.kind == "name"
            owner = Declared(word.text, _formals(words, position + 2)) if is_declaration else None
            found |= {owner.name: owner} if owner is not None and owner.name not in found else {}
        elif owner is not None and word.text in ("ref", "reference", "pattern") and after.text == "(":
            found[inside.text.strip('"')] = owner
    return found


def _formals(words: Sequence[Token], start: int) -> tuple[str, ...]:
    """Return the names in the parentheses at ``start``, if there are any."""
    rest = (words[position] for position in range(start, len(words)))
    inner = takewhile(lambda word: word.text not in (")", ":", ";", "{", "}"), rest)
    return tuple(word.text for word in inner if word.kind == "name")


def by_shape(variables: dict[str, Declared]) -> dict[str, list[tuple[str, Declared]]]:
    """Return patterns and their variables by the pattern without the names in its braces."""
    shapes: dict[str, list[tuple[str, Declared]]] = {}
    for pattern, variable in variables.items():
        if "{" in pattern:
            shapes.setdefault(_BRACES.sub("{}", pattern), []).append((pattern, variable))
    return shapes


def replacement(
    use: ModelUse, variables: dict[str, Declared], patterns: dict[str, list[tuple[str, Declared]]]
) -> str | None:
    """Return the variable that replaces a use of model data, or None if none is declared for it.

    Args:
        patterns: what `by_shape` returns for the variables.
    """
    if not use.is_pattern:
        return variables[use.data].name if use.data in variables else None
    for pattern, variable in patterns.get(_BRACES.sub("{}", use.data), ()):
        pairs = {*zip(_BRACES.findall(pattern), _BRACES.findall(use.data), strict=True)}
        written = dict(pairs)
        if len(pairs) == len(written) and set(variable.formals) <= set(written):
            return f"{variable.name}[{', '.join(written[formal] for formal in variable.formals)}]"
    return None


def undeclared(uses: Sequence[ModelUse], text: str, name: str) -> DslSyntaxError:
    """Return the error for uses of model data without a declaration."""
    positions = Positions(Source(name, text))
    found = [
        Diagnostic(
            code="syntax",
            message=f"nothing is declared for {text[use.start : use.end]}, and its type is in the model",
            span=positions.span(use.start, use.end),
            hint=_advice(use),
        )
        for use in uses
    ]
    return DslSyntaxError(summary(found), diagnostics=found)


def _advice(use: ModelUse) -> str:
    if not use.is_pattern:
        own = _NAME.fullmatch(use.data) is not None
        declared = use.data if own else re.sub(r"\W", "_", f"_{use.data}" if use.data[:1].isdigit() else use.data)
        link = "" if own else f" @ref({quoted(use.data)})"
        return f"declare `constant {{ {declared}: DTYPE[DIMS]{link}; }}` and run this again"
    formals = ", ".join(dict.fromkeys(_BRACES.findall(use.data))) or "i"
    return f"declare `constant {{ W({formals}): DTYPE[DIMS] @pattern({quoted(use.data)}); }}` and run this again"
