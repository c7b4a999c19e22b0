"""Integer expressions inside a running program: constants, or functions that read loop indices and scalars."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from openinfer import symbolic
from openinfer.errors import ExecutionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.symbolic import IntExpr

IntReader: TypeAlias = Callable[[], int]

_OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
"""Operators that have a value for every pair of integers."""


@dataclass(slots=True, eq=False)
class LoopIndex:
    """The value of a loop's index in the turn that runs; calling it reads it."""

    name: str
    value: int = 0

    def __call__(self) -> int:
        return self.value


def checked(expr: IntExpr, read: IntReader) -> IntReader:
    """Return ``read`` with a check of the value that it returns for an expression.

    Raises:
        ExecutionError: the value does not fit 64 bits (``integer-range``).
    """

    def found() -> int:
        value = read()
        if value not in symbolic.INT64:
            message = f"`{symbolic.text(expr)}` is {symbolic.value_text(value)}, which does not fit 64 bits"
            raise ExecutionError(message, code="integer-range")
        return value

    return found


def integer(expr: IntExpr, lookup: Callable[[str], int | IntReader]) -> int | IntReader:
    """Return the value of an expression, or a function that computes it at each call.

    ``lookup`` returns what a name stands for.
    """
    if isinstance(expr, symbolic.Const):
        return expr.value
    if isinstance(expr, symbolic.Name):
        return lookup(expr.name)
    left, right = integer(expr.left, lookup), integer(expr.right, lookup)
    combine = _OPERATORS.get(expr.op) or _division(expr)
    if not callable(left):
        return combine(left, right) if not callable(right) else lambda: combine(left, right())
    return (lambda: combine(left(), right())) if callable(right) else lambda: combine(left(), right)


def _division(expr: symbolic.BinOp) -> Callable[[int, int], int]:
    """Return the function that divides two values as expressions do.

    Raises:
        ExecutionError: the result does, where a division has no value (``bad-division``).
    """

    def divided(left: int, right: int) -> int:
        try:
            return symbolic.applied(expr, left, right)
        except symbolic.DivisionError as error:
            raise ExecutionError(str(error), code="bad-division") from error

    return divided


def value_of(integer: int | IntReader) -> int:
    """Return the present value of an expression."""
    return integer() if callable(integer) else integer


def values_of(integers: Sequence[int | IntReader]) -> tuple[int, ...]:
    """Return the present values of expressions."""
    return tuple(value_of(integer) for integer in integers)
