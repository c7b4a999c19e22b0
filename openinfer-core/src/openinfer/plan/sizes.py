"""Integer expressions of a plan that are made while it is planned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from openinfer.affine import Quotient, Var
from openinfer.plan.operands import IndexExpr
from openinfer.symbolic import BinOp, Const

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from openinfer.affine import Index
    from openinfer.affine.index import Atom


def number(value: int) -> IndexExpr:
    """Return a number as an expression."""
    return IndexExpr(Const(value))


def combined(left: IndexExpr, operator: Literal["+", "-", "*", "floor", "ceil", "%"], right: IndexExpr) -> IndexExpr:
    """Return ``left operator right``; equal names mean the same in both."""
    return IndexExpr(BinOp(operator, left.expr, right.expr), tuple(dict.fromkeys((*left.names, *right.names))))


def polynomial(
    index: Index, values: Mapping[str, IndexExpr], low: Callable[[Index], int | None] = lambda index: index.interval.low
) -> IndexExpr:
    """Return an index over parameters, of which ``values`` has the values by name, as an expression.

    Args:
        low: the least value of an index.

    Raises:
        ValueError: it divides an index that has no least value.
    """
    total: IndexExpr | None = None
    for atoms, factor in index.terms:
        term = number(abs(factor))
        for place, atom in enumerate(atoms):
            value = _atom(atom, values, low)
            term = value if place == 0 and abs(factor) == 1 else combined(term, "*", value)
        if total is None:
            total = term if factor > 0 else combined(number(0), "-", term)
        else:
            total = combined(total, "+" if factor > 0 else "-", term)
    return number(0) if total is None else total


def _atom(atom: Atom, values: Mapping[str, IndexExpr], low: Callable[[Index], int | None]) -> IndexExpr:
    if isinstance(atom, Var):
        return values[atom.name]
    least, by = low(atom.of), polynomial(atom.by, values, low)
    if least is None:
        raise ValueError(f"`{atom.of}` is divided, and has no least value")
    # Expressions divide numbers from 0 on only: a multiple of the divisor, which is at least 1, makes it one.
    added = max(0, -least)
    divided = polynomial(atom.of + atom.by * added, values, low)
    if not isinstance(atom, Quotient):
        return combined(divided, "%", by)
    quotient = combined(divided, "floor", by)
    return combined(quotient, "-", number(added)) if added else quotient


def product(factors: tuple[IndexExpr, ...]) -> IndexExpr:
    """Return the product of some sizes; numbers are multiplied at once."""
    known, varying = 1, list[IndexExpr]()
    for factor in factors:
        if isinstance(factor.expr, Const):
            known *= factor.expr.value
        else:
            varying.append(factor)
    total = number(known)
    for place, factor in enumerate(varying):
        total = factor if place == 0 and known == 1 else combined(total, "*", factor)
    return total
