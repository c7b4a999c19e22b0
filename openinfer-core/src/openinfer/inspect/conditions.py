"""Small expressions over values of a running program: ``max(abs(x)) > 10``, ``K[0, step]``, ``any(isnan(h))``.

From loosest to tightest: ``or``; ``and``; ``not``; one of ``< <= > >= == !=``; ``+ -``; ``* /``; ``-`` in front.
Operands are numbers, ``inf``, ``nan``, ``true``, ``false``, variables with or without indices, loop indices, calls of
the functions below, and parentheses.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from openinfer.diagnostics import did_you_mean
from openinfer.errors import ExecutionError

if TYPE_CHECKING:
    from collections.abc import Iterator

ELEMENTWISE = ("abs", "isnan", "isinf", "isfinite")
"""Functions of every element."""

REDUCTIONS = ("min", "max", "mean", "sum", "any", "all", "count", "norm")
"""Functions from all elements to one value; ``count`` is of elements that are not zero, ``norm`` the Euclidean one."""

FUNCTIONS = (*ELEMENTWISE, *REDUCTIONS)

MOST_TOKENS = 200
"""Longest expression, in tokens."""

MOST_NESTED = 40
"""Deepest nesting of parentheses."""

MOST_DIGITS = 18
"""Digits of an integer that is kept exact; longer ones are floats."""

_CONSTANTS = {"true": True, "false": False, "inf": float("inf"), "nan": float("nan")}
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:\s*(?P<indices>\[[^\[\]]*\]))?"
    r"|(?P<sign><=|>=|==|!=|[-+*/<>()]))"
)


@dataclass(frozen=True, slots=True)
class Number:
    """A number, ``true`` or ``false``."""

    value: float | int | bool


@dataclass(frozen=True, slots=True)
class Access:
    """A variable or loop index; ``indices`` is what follows it in brackets, None without any."""

    name: str
    indices: str | None = None

    def __str__(self) -> str:
        return self.name if self.indices is None else f"{self.name}[{self.indices}]"


@dataclass(frozen=True, slots=True)
class Function:
    """A call of one of `FUNCTIONS`."""

    name: str
    argument: Expression


@dataclass(frozen=True, slots=True)
class Prefix:
    """``-`` or ``not`` in front of an operand."""

    sign: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class Infix:
    """Two operands with a sign or word between them."""

    sign: str
    left: Expression
    right: Expression


Expression: TypeAlias = Number | Access | Function | Prefix | Infix


def parse(text: str) -> Expression:
    """Return the expression that a text is.

    Raises:
        ExecutionError: ``bad-condition``, with the place where the text stops making sense.
    """
    parser = _Parser(text)
    found = parser.disjunction()
    if parser.kind != "end":
        raise parser.unexpected("the end or an operator")
    return found


def accesses(expression: Expression) -> Iterator[Access]:
    """Yield the variables and loop indices of an expression."""
    stack = [expression]
    while stack:
        item = stack.pop()
        if isinstance(item, Access):
            yield item
        elif isinstance(item, Function):
            stack.append(item.argument)
        elif isinstance(item, Prefix):
            stack.append(item.operand)
        elif isinstance(item, Infix):
            stack += [item.right, item.left]


def _error(text: str, offset: int, message: str) -> ExecutionError:
    shown = f"{text[:offset]}<here>{text[offset:]}" if offset < len(text) else text
    return ExecutionError(f"{shown!r} is not a condition: {message}", code="bad-condition")


class _Parser:
    """Recursive descent; `MOST_TOKENS` and `MOST_NESTED` bound its depth."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._depth = 0
        self._tokens = iter(self._split())
        self.kind, self.value, self.indices, self.offset = next(self._tokens)

    def unexpected(self, expected: str) -> ExecutionError:
        found = "the end" if self.kind == "end" else repr(self.value)
        return _error(self._text, self.offset, f"expected {expected}, found {found}")

    def disjunction(self) -> Expression:
        left = self._conjunction()
        while self._takes("or"):
            left = Infix("or", left, self._conjunction())
        return left

    def _conjunction(self) -> Expression:
        left = self._negation()
        while self._takes("and"):
            left = Infix("and", left, self._negation())
        return left

    def _negation(self) -> Expression:
        return Prefix("not", self._negation()) if self._takes("not") else self._comparison()

    def _comparison(self) -> Expression:
        left = self._sum()
        sign = self._taken(*_COMPARISONS)
        return left if sign is None else Infix(sign, left, self._sum())

    def _sum(self) -> Expression:
        left = self._product()
        while (sign := self._taken("+", "-")) is not None:
            left = Infix(sign, left, self._product())
        return left

    def _product(self) -> Expression:
        left = self._operand()
        while (sign := self._taken("*", "/")) is not None:
            left = Infix(sign, left, self._operand())
        return left

    def _operand(self) -> Expression:
        if self._takes("-"):
            return Prefix("-", self._operand())
        if self._opened():
            return self._closed(self.disjunction())
        kind, value, indices = self.kind, self.value, self.indices
        if kind == "number":
            self._advance()
            return Number(int(value) if value.isdigit() and len(value) <= MOST_DIGITS else float(value))
        if kind != "name" or value in ("and", "or", "not"):
            raise self.unexpected("a variable or a number")
        offset = self.offset
        self._advance()
        if indices is None and self._opened():
            return self._call(value, offset)
        return Number(_CONSTANTS[value]) if indices is None and value in _CONSTANTS else Access(value, indices)

    def _call(self, name: str, offset: int) -> Expression:
        if name not in FUNCTIONS:
            hint = did_you_mean(name, FUNCTIONS) or f"functions are {', '.join(FUNCTIONS)}"
            raise _error(self._text, offset, f"unknown function {name!r}: {hint}")
        return Function(name, self._closed(self.disjunction()))

    def _closed(self, inner: Expression) -> Expression:
        if not self._takes(")"):
            raise self.unexpected("')'")
        self._depth -= 1
        return inner

    def _opened(self) -> bool:
        """Go past ``(``, if it comes next."""
        if not self._takes("("):
            return False
        self._depth += 1
        if self._depth > MOST_NESTED:
            raise _error(self._text, self.offset, f"parentheses are nested more than {MOST_NESTED} deep")
        return True

    def _takes(self, word: str) -> bool:
        return self._taken(word) is not None

    def _taken(self, *words: str) -> str | None:
        """Go past one of these signs or words, if it comes next, and return it."""
        if self.value not in words or self.kind not in ("sign", "name") or self.indices is not None:
            return None
        found = self.value
        self._advance()
        return found

    def _advance(self) -> None:
        self.kind, self.value, self.indices, self.offset = next(self._tokens)

    def _split(self) -> list[tuple[str, str, str | None, int]]:
        text, position, found = self._text, 0, list[tuple[str, str, str | None, int]]()
        end = len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                raise _error(text, position, f"unexpected character {text[position:].lstrip()[0]!r}")
            kind = next(name for name in ("number", "name", "sign") if match[name] is not None)
            indices = match["indices"]
            found.append((kind, match[kind], None if indices is None else indices[1:-1].strip(), match.start(kind)))
            position = match.end()
        if len(found) > MOST_TOKENS:
            raise _error(text, len(text), f"it has more than {MOST_TOKENS} parts")
        return [*found, ("end", "", None, len(text))]
