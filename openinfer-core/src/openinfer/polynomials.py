"""Sums of products: the normal form in which integer expressions become short again.

Quotients and remainders are atoms of a product, but for an exact quotient by an integer that divides every term.
"""

from __future__ import annotations

from typing import TypeAlias

from openinfer.symbolic import BinOp, Const, IntExpr, text

Product: TypeAlias = "tuple[IntExpr, ...]"
"""Atoms of a product, in the order of their text; empty for 1."""

Terms: TypeAlias = "dict[Product, int]"
"""Coefficients by product, in the order in which the products were met."""

MOST_TERMS = 64
"""Most terms of a normal form; longer expressions stay as they are."""


def simplified(expr: IntExpr) -> IntExpr:
    """Return an equal expression with like terms collected, such as ``2*D`` for ``D+D``.

    It has a value wherever the given one has, and may have one where that has none.
    """
    terms = _terms(expr)
    return expr if len(terms) > MOST_TERMS else _expression(terms)


def _terms(expr: IntExpr) -> Terms:
    if isinstance(expr, Const):
        return {(): expr.value} if expr.value else {}
    if not isinstance(expr, BinOp):
        return {(expr,): 1}
    left, right = _terms(expr.left), _terms(expr.right)
    if max(len(left), len(right)) > MOST_TERMS:
        return {(expr,): 1}
    if expr.op in ("+", "-"):
        return _sum(left, right, 1 if expr.op == "+" else -1)
    if expr.op == "*":
        return _product(left, right)
    return _division(expr, left, right)


def _sum(left: Terms, right: Terms, sign: int) -> Terms:
    found = dict(left)
    for product, coefficient in right.items():
        found[product] = found.get(product, 0) + sign * coefficient
    return {product: coefficient for product, coefficient in found.items() if coefficient}


def _product(left: Terms, right: Terms) -> Terms:
    found: Terms = {}
    for one, many in left.items():
        for other, times in right.items():
            product = tuple(sorted((*one, *other), key=text))
            found[product] = found.get(product, 0) + many * times
    return {product: coefficient for product, coefficient in found.items() if coefficient}


def _division(expr: BinOp, left: Terms, right: Terms) -> Terms:
    by = right.get((), 0) if set(right) == {()} else 0
    divides = by > 0 and all(coefficient % by == 0 for coefficient in left.values())
    if divides:
        return {} if expr.op == "%" else {product: coefficient // by for product, coefficient in left.items()}
    return {(BinOp(expr.op, _expression(left), _expression(right)),): 1}


def _expression(terms: Terms) -> IntExpr:
    """Return the terms as an expression: what is added first, then what is taken away, then the number."""
    ordered = sorted(terms.items(), key=lambda term: (term[1] < 0, not term[0]))
    found: IntExpr | None = None
    for product, coefficient in ordered:
        if found is None:
            found = (
                _term(product, coefficient) if coefficient > 0 else BinOp("-", Const(0), _term(product, -coefficient))
            )
        else:
            found = BinOp("+" if coefficient > 0 else "-", found, _term(product, abs(coefficient)))
    return Const(0) if found is None else found


def _term(product: Product, coefficient: int) -> IntExpr:
    found: IntExpr | None = Const(coefficient) if coefficient != 1 or not product else None
    for atom in product:
        found = atom if found is None else BinOp("*", found, atom)
    return Const(1) if found is None else found
