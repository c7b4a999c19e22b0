"""Integer expressions of a plan that are made while it is planned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from openinfer.plan.operands import IndexExpr
from openinfer.symbolic import BinOp, Const

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.affine import Index


def number(value: int) -> IndexExpr:
    """Return a number as an expression."""
    return IndexExpr(Const(value))


def combined(left: IndexExpr, operator: Literal["+", "-", "*"], right: IndexExpr) -> IndexExpr:
    """Return ``left operator right``; equal names mean the same in both."""
    return IndexExpr(BinOp(operator, left.expr, right.expr), tuple(dict.fromkeys((*left.names, *right.names))))


def polynomial(index: Index, values: Mapping[str, IndexExpr]) -> IndexExpr:
    """Return a polynomial over parameters, of which ``values`` has the values by name."""
    total: IndexExpr | None = None
    for atoms, factor in index.terms:
        term = number(abs(factor))
        for place, atom in enumerate(atoms):
            value = values[atom.text]
            term = value if place == 0 and abs(factor) == 1 else combined(term, "*", value)
        if total is None:
            total = term if factor > 0 else combined(number(0), "-", term)
        else:
            total = combined(total, "+" if factor > 0 else "-", term)
    return number(0) if total is None else total


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
