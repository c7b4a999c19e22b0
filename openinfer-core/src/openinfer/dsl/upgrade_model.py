"""Model data of the earlier syntax, ``model["name"]`` and ``model[fmt("name{index}")]``, by the variables of today.

A use becomes the name of the variable that is declared for these data: one of that name, or one with an ``@ref`` or a
``@pattern`` to it. Without a declaration, one is added if the model is there, which alone knows the type; else a
finding names the one to write.
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
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from typing import TypeAlias

    from openinfer.dsl.tokens import Token

    TypeOf: TypeAlias = Callable[[str, bool], str | None]
    """Model data, by name or (if true) by a pattern with braces, to the type that a declaration states, or None."""

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


def declared(uses: Iterable[ModelUse], taken: Collection[str], type_of: TypeOf) -> dict[str, tuple[Declared, str]]:
    """Return variables for model data that nothing is declared for, each with its declaration as text.

    Args:
        taken: names that the text uses.
        type_of: the type of data of the model by name, or of all data that a pattern with braces names.
    """
    made: dict[str, tuple[Declared, str]] = {}
    names = set(taken)
    for use in uses:
        type_ = None if use.data in made else type_of(use.data, use.is_pattern)
        if type_ is None:
            continue
        formals = tuple(dict.fromkeys(_BRACES.findall(use.data))) if use.is_pattern else ()
        name = _variable_name(_BRACES.sub("", use.data) if use.is_pattern else use.data)
        while name in names:
            name += "_"
        names.add(name)
        made[use.data] = (Declared(name, formals), _declaration(name, formals, type_, use))
    return made


def _declaration(name: str, formals: Sequence[str], type_: str, use: ModelUse) -> str:
    if use.is_pattern:
        return f"{name}({', '.join(formals)}): {type_} @pattern({quoted(use.data)});"
    return f"{name}: {type_};" if name == use.data else f"{name}: {type_} @ref({quoted(use.data)});"


def _variable_name(data: str) -> str:
    """Return a name like that of model data: other characters than those of names become ``_``."""
    name = re.sub(r"\W+", "_", data, flags=re.ASCII).strip("_") or "data"
    return f"_{name}" if name[:1].isdigit() else name


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
        name = use.data if own else re.sub(r"\W", "_", f"_{use.data}" if use.data[:1].isdigit() else use.data)
        link = "" if own else f" @ref({quoted(use.data)})"
        return f"declare `constant {{ {name}: DTYPE[DIMS]{link}; }}` and run this again, or add --model"
    formals = ", ".join(dict.fromkeys(_BRACES.findall(use.data))) or "i"
    line = f"W({formals}): DTYPE[DIMS] @pattern({quoted(use.data)});"
    return f"declare `constant {{ {line} }}` and run this again, or add --model"
