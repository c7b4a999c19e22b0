"""Integer expressions of dimensions, loop bounds and indices: parse, print, evaluate.

The grammar (``specification: language.dimensions``): integers, names, ``+ - * / %``, parentheses,
and ``floor`` and ``ceil`` of a quotient. Canonical text has no spaces, decimal integers and only the parentheses that
are needed, so that parsing it gives an equal expression.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_DEPTH = 64
"""Deepest nesting of parentheses that is accepted; far more than any program needs."""

MAX_OPERATORS = 200
"""Most operators of one expression: they bound the depth of its tree, and so what comparing trees costs in stack."""


MAX_LEVELS = 256
"""Deepest tree of operators: of any text, and of what is computed from one. Trees are compared level by level."""

LITERAL_WORDS = ("true", "false", "inf", "nan")
"""Words that are values, so that nothing has them as its name."""

INT64 = range(-(2**63), 2**63)
"""Values that bounds, indices and settings may have; exact integers in between may be larger."""

MAX_LITERAL = 2**64 - 1
"""Largest integer literal."""


@dataclass(frozen=True, slots=True)
class Const:
    """A non-negative integer."""

    value: int


@dataclass(frozen=True, slots=True)
class Name:
    """A size variable, loop index, formal or scalar variable."""

    name: str


Division: TypeAlias = Literal["/", "%", "floor", "ceil"]


class LevelsError(ValueError):
    """An expression has more than `MAX_LEVELS` levels of operators."""


@dataclass(frozen=True, slots=True)
class BinOp:
    """A sum, difference, product, exact quotient (``/``), remainder, or quotient rounded down or up.

    Operands of the last four are non-negative integers.

    Attributes:
        levels: how many operators are within one another, this one included.

    Raises:
        LevelsError: there are more than `MAX_LEVELS`.
    """

    op: Literal["+", "-", "*"] | Division
    left: IntExpr
    right: IntExpr
    levels: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        levels = 1 + max(operand.levels if isinstance(operand, BinOp) else 0 for operand in (self.left, self.right))
        if levels > MAX_LEVELS:
            raise LevelsError(f"an integer expression has more than {MAX_LEVELS} levels of operators: split it up")
        object.__setattr__(self, "levels", levels)


IntExpr: TypeAlias = Const | Name | BinOp

ROUNDINGS = ("floor", "ceil")
"""Words that round a quotient where a parenthesis follows; else they are names."""

DIVISIONS = frozenset({"/", "%", *ROUNDINGS})


class SymbolicSyntaxError(ValueError):
    """The text is not an integer expression. ``offset`` is where it stops making sense."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class DivisionError(ArithmeticError):
    """A division has no value: by zero, of a negative integer, or with a remainder where it has to be exact."""


_TOKEN = re.compile(
    r"\s*(?:(?P<int>0[xX][0-9A-Fa-f_]+|0[oO][0-7_]+|0[bB][01_]+|[0-9][0-9_]*)(?:[iu](?:8|16|32|64|size))?(?![A-Za-z0-9_])"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<op>[-+*/%()]))"
)


def parse(text: str) -> IntExpr:
    """Parse an integer expression such as ``3*D+1``.

    Raises:
        SymbolicSyntaxError: the text is not one, or is nested too deeply.
    """
    tokens = _tokens(text)
    operators = [offset for kind, value, offset in tokens if kind == "op" and value in "+-*/%"]
    if len(operators) > MAX_OPERATORS:
        raise SymbolicSyntaxError(f"expression too long: over {MAX_OPERATORS} operators", operators[MAX_OPERATORS])
    parser = _Parser(tokens, len(text))
    expr = parser.sum(0)
    if parser.kind != "end":
        raise SymbolicSyntaxError(f"expected an operator or the end, found {parser.value!r}", parser.offset)
    return expr


def _tokens(text: str) -> list[tuple[str, str, int]]:
    tokens: list[tuple[str, str, int]] = []
    position = 0
    end = len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            raise SymbolicSyntaxError(f"unexpected character in integer expression {text!r}", position)
        kind = match.lastgroup or ""
        tokens.append((kind, match.group(kind), match.start(kind)))
        position = match.end()
    return tokens


class _Parser:
    """Recursive descent over the tokens; depth is counted so that hostile text cannot exhaust the stack."""

    def __init__(self, tokens: list[tuple[str, str, int]], length: int) -> None:
        self._tokens: Iterator[tuple[str, str, int]] = iter(tokens)
        self._length = length
        self.advance()

    def advance(self) -> None:
        self.kind, self.value, self.offset = next(self._tokens, ("end", "", self._length))

    def sum(self, depth: int) -> IntExpr:
        left = self.product(depth)
        while self.value in ("+", "-") and self.kind == "op":
            op = self.value
            self.advance()
            left = BinOp("+" if op == "+" else "-", left, self.product(depth))
        return left

    def product(self, depth: int) -> IntExpr:
        left = self.atom(depth)
        while self.value in ("*", "/", "%") and self.kind == "op":
            op = self.value
            self.advance()
            left = BinOp("*" if op == "*" else "/" if op == "/" else "%", left, self.atom(depth))
        return left

    def atom(self, depth: int) -> IntExpr:
        kind, value, offset = self.kind, self.value, self.offset
        if kind == "int":
            self.advance()
            return Const(_literal(value, offset))
        if kind == "name" and value not in LITERAL_WORDS:
            self.advance()
            is_called = value in ROUNDINGS and self.kind == "op" and self.value == "("
            return self._rounded(value, depth) if is_called else Name(value)
        if kind == "op" and value == "(":
            return self._parenthesised(depth, offset)
        found = repr(value) if value else "the end"
        raise SymbolicSyntaxError(f"expected identifier or integer, found {found}", offset)

    def _rounded(self, word: str, depth: int) -> IntExpr:
        start = self.offset
        inner = self._parenthesised(depth, start)
        if not isinstance(inner, BinOp) or inner.op != "/":
            message = f"{word} takes a division such as `{word}(H/2)`, found `{word}({text(inner)})`"
            raise SymbolicSyntaxError(message, start)
        return BinOp("floor" if word == "floor" else "ceil", inner.left, inner.right)

    def _parenthesised(self, depth: int, offset: int) -> IntExpr:
        if depth >= MAX_DEPTH:
            raise SymbolicSyntaxError("nesting too deep", offset)
        self.advance()
        inner = self.sum(depth + 1)
        if self.kind != "op" or self.value != ")":
            raise SymbolicSyntaxError("expected ')'", self.offset)
        self.advance()
        return inner


def _literal(digits: str, offset: int) -> int:
    try:
        value = integer(digits)
    except ValueError:
        raise SymbolicSyntaxError("an integer literal is not readable", offset) from None
    if value > MAX_LITERAL:
        raise SymbolicSyntaxError("an integer literal does not fit 64 bits", offset)
    return value


def integer(digits: str) -> int:
    """Return the value of an unsigned integer literal: decimal, ``0x``, ``0o`` or ``0b``, with ``_`` separators."""
    plain = digits.replace("_", "")
    prefix = plain[:2].lower()
    base = {"0x": 16, "0o": 8, "0b": 2}.get(prefix, 10)
    return int(plain, 10) if base == 10 else int(plain[2:], base)


_LEVEL = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2, "floor": 3, "ceil": 3}


def text(expr: IntExpr) -> str:
    """Return the canonical text of an expression."""
    pieces: list[str] = []
    stack: list[IntExpr | str] = [expr]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            pieces.append(item)
        elif isinstance(item, Const):
            pieces.append(str(item.value))
        elif isinstance(item, Name):
            pieces.append(item.name)
        elif item.op in ROUNDINGS:
            stack += [")", *_infix(item, "/"), f"{item.op}("]
        else:
            stack += _infix(item, item.op)
    return "".join(pieces)


def _infix(expr: BinOp, sign: str) -> list[IntExpr | str]:
    """Return the pieces of two operands with a sign between them, in reverse order."""
    return [*_operand(expr.right, _LEVEL[sign] + 1), sign, *_operand(expr.left, _LEVEL[sign])]


def _operand(expr: IntExpr, level: int) -> list[IntExpr | str]:
    """Return the pieces of an operand in reverse order, in parentheses when its operator binds less than ``level``."""
    if isinstance(expr, BinOp) and _LEVEL[expr.op] < level:
        return [")", expr, "("]
    return [expr]


def value_text(value: int) -> str:
    """Return an integer as messages show it: the first digits of one that is very long."""
    digits = str(value)
    return digits if len(digits) <= 40 else f"{digits[:20]}…"


def _parts(expr: IntExpr) -> Iterator[IntExpr]:
    """Yield an expression and those that it is made of, in order of appearance."""
    stack = [expr]
    while stack:
        item = stack.pop()
        yield item
        if isinstance(item, BinOp):
            stack += [item.right, item.left]


def names(expr: IntExpr) -> tuple[str, ...]:
    """Return the names in an expression, in order of appearance, each once."""
    return tuple(dict.fromkeys(part.name for part in _parts(expr) if isinstance(part, Name)))


def constants(expr: IntExpr) -> tuple[int, ...]:
    """Return the integers in an expression, in order of appearance."""
    return tuple(part.value for part in _parts(expr) if isinstance(part, Const))


def operations(expr: IntExpr) -> frozenset[str]:
    """Return the operators in an expression, as `BinOp` has them."""
    return frozenset(part.op for part in _parts(expr) if isinstance(part, BinOp))


def evaluate(expr: IntExpr, lookup: Callable[[str], int]) -> int:
    """Return the exact value, asking ``lookup`` for names (which raises what it likes for an unknown one).

    Raises:
        DivisionError: a division in it has no value; the message has the operands.
    """
    match expr:
        case Const(value):
            return value
        case Name(name):
            return lookup(name)
        case BinOp(left=left, right=right):
            return applied(expr, evaluate(left, lookup), evaluate(right, lookup))


def applied(expr: BinOp, left: int, right: int) -> int:
    """Return the value of an operation whose operands have these values.

    Raises:
        DivisionError: as `evaluate`.
    """
    if expr.op == "+":
        return left + right
    if expr.op == "-":
        return left - right
    if expr.op == "*":
        return left * right
    return divided(expr.op, left, right, lambda: text(expr))


def divided(op: Division, left: int, right: int, written: Callable[[], str]) -> int:
    """Return the value of a division.

    Args:
        written: returns the text of the division, for an error.

    Raises:
        DivisionError: as `evaluate`.
    """
    if left < 0 or right <= 0:
        rule = "nothing is divided by 0" if right == 0 else "only non-negative integers are divided"
        raise DivisionError(f"`{written()}` divides {value_text(left)} by {value_text(right)}: {rule}")
    quotient, remainder = divmod(left, right)
    if op == "%":
        return remainder
    if op == "/" and remainder:
        raise DivisionError(
            f"`{written()}` divides {value_text(left)} by {value_text(right)}, which leaves {value_text(remainder)}: "
            "write `floor(…)` or `ceil(…)` around it for a rounded quotient"
        )
    return quotient + (op == "ceil" and remainder > 0)
