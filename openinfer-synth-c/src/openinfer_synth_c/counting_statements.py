"""Statements of functions as their texts without numbers, to find those that differ in numbers only."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

COUNTER = "n"
"""The variable of loops that carry out a statement with several numbers."""

TOTAL = re.compile(r"\btotal(\d+)\b(?!\[)")
"""The name of a total that is not an array."""

_PLAIN = re.compile(r"\s*(?:const \w+ (?:\*const )?(?P<constant>\w+) = |total\d+ = |\w+\()[^{}?]*;")
_FIRST = re.compile(r"\b(\w*(?:load|store|rows)_\w+\([A-Za-z_]\w*)(?=[,)])")
_NO_DISTANCE = re.compile(r" \+ 0(?=[,)])")
_TOKEN = re.compile(r"[A-Za-z_]\w*|0[xX][\w.+-]+|\d+\.\w*|\d+|\s+|.")


@dataclass(frozen=True, slots=True)
class Number:
    """A number in a statement.

    Attributes:
        total: whether it is part of the name of a total.
        counts: whether an expression may take its place.
    """

    value: int
    total: bool
    counts: bool


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement.

    Attributes:
        shape: its tokens, with ``#`` for each number and ``@`` for each constant that statements next to it declare.
        numbers, names: what these stand for, in their order.
        constant: the name of the constant that it declares.
    """

    text: str
    shape: tuple[str, ...]
    numbers: tuple[Number, ...]
    names: tuple[str, ...]
    constant: str | None


def is_plain(text: str) -> bool:
    """Return whether a line is one statement that calls, assigns to a total, or declares a constant."""
    return _PLAIN.fullmatch(text) is not None


def statements_of(texts: Sequence[str], totals: Collection[int]) -> list[Statement]:
    """Return plain statements that are next to each other; ``totals`` may be elements of arrays."""
    constants = [found["constant"] if (found := _PLAIN.fullmatch(text)) else None for text in texts]
    known = {constant for constant in constants if constant}
    return [_statement(text, constant, known, totals) for text, constant in zip(texts, constants, strict=True)]


def _statement(text: str, constant: str | None, constants: Collection[str], totals: Collection[int]) -> Statement:
    # The first of a row of addresses has no distance.
    tokens = _TOKEN.findall(_FIRST.sub(r"\1 + 0", text.strip()))
    shape: list[str] = []
    numbers: list[Number] = []
    names: list[str] = []
    for position, token in enumerate(tokens):
        total = TOTAL.fullmatch(token)
        if token in constants:
            shape.append("@")
            names.append(token)
        elif total is not None and int(total[1]) in totals:
            shape.append("$")
            numbers.append(Number(int(total[1]), total=True, counts=True))
        elif token.isdigit():
            shape.append("#")
            counts = _is_distance("".join(tokens[max(position - 2, 0) : position]), tokens[position + 1 : position + 2])
            numbers.append(Number(int(token), total=False, counts=counts))
        else:
            shape.append(token)
    return Statement(text, tuple(shape), tuple(numbers), tuple(names), constant)


def _is_distance(before: str, after: Sequence[str]) -> bool:
    """Return whether a number between texts is a term of an address or all of an index."""
    return before.endswith(("+ ", "[")) and after in (["]"], [")"], [","], [";"])


def same_names(first: Sequence[Statement], iteration: Sequence[Statement]) -> bool:
    """Return whether an iteration uses its own constants where the first one does, and else the same ones."""
    renamed = {a.constant: b.constant for a, b in zip(first, iteration, strict=True) if a.constant}
    return all(
        renamed.get(one, one) == other
        for a, b in zip(first, iteration, strict=True)
        for one, other in zip(a.names, b.names, strict=True)
    )


def uses(iteration: Iterable[Statement]) -> Counter[str]:
    """Return how often statements use each constant, declarations included."""
    return Counter(name for statement in iteration for name in statement.names)


def counting_text(first: Statement, second: Statement, total: Callable[[int, int], str]) -> str:
    """Return the text of a statement in a loop.

    Args:
        first, second: the statement in the first two iterations.
        total: returns the text of a total with its number and the step to that of the next iteration.
    """
    numbers = iter(zip(first.numbers, second.numbers, strict=True))
    names = iter(first.names)
    parts: list[str] = []
    for piece in first.shape:
        if piece == "@":
            parts.append(next(names))
        elif piece not in ("#", "$"):
            parts.append(piece)
        else:
            a, b = next(numbers)
            parts.append((total if a.total else counted)(a.value, b.value - a.value))
    return _NO_DISTANCE.sub("", "".join(parts))


def counted(start: int, step: int) -> str:
    """Return the text of ``start`` and a step for each iteration before this one."""
    if step == 0:
        return str(start)
    steps = COUNTER if step == 1 else f"{step} * {COUNTER}"
    return f"{steps} + {start}" if start else steps
