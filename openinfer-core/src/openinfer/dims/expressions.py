"""Sizes as dimensions of the language: ``2*B``, ``T-1``, ``floor((H-1)/2)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer import symbolic
from openinfer.affine import Index, Quotient, Remainder, Var
from openinfer.dims.condition import Condition, Relation
from openinfer.dims.lets import Let, LetKind
from openinfer.symbolic import BinOp, Const, Name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from openinfer.affine.index import Atom
    from openinfer.symbolic import IntExpr

MOST_TERMS = 64
"""Terms up to which an expression is collected: products of sums grow without bound."""


def expression(index: Index, is_certain: Callable[[Condition], bool]) -> IntExpr | None:
    """Return a size as the language writes it, or None where it has no expression for it, such as ``max(T, U)``.

    The language divides what is not negative only, and ``/`` leaves no remainder: where that is not certain, there is
    no expression. What is certainly not above 0 is divided without its sign: ``-x // n`` is ``-ceil(x/n)``.
    """
    quotient = _shifted_quotient(index, is_certain)
    if quotient is not None:
        return _atom(quotient, is_certain)
    written = _sum(index, is_certain)
    return _shifted_ceiling(index, is_certain) if written is None else written


def simplified(expr: IntExpr) -> IntExpr:
    """Return an equal expression with like terms collected, such as ``2*D`` for ``D+D``.

    It has a value wherever the given one has, and may have one where that has none.
    """
    divisions: dict[str, IntExpr] = {}
    written = expression(_collected(expr, divisions), lambda _: False)
    return expr if written is None else _with_divisions(written, divisions)


def _collected(expr: IntExpr, divisions: dict[str, IntExpr]) -> Index:
    """Return an expression as a sum of products.

    Names of ``divisions`` stand for quotients, and for what has too many terms to be collected.
    """
    if isinstance(expr, Const):
        return Index.of(expr.value)
    if isinstance(expr, Name):
        return Index.of(Var(expr.name))
    left, right = _collected(expr.left, divisions), _collected(expr.right, divisions)
    is_short = max(len(left.terms), len(right.terms)) <= MOST_TERMS
    if is_short and expr.op == "+":
        return left + right
    if is_short and expr.op == "-":
        return left - right
    if is_short and expr.op == "*":
        return left * right
    by = right.constant or 0
    if is_short and by > 0 and all(factor % by == 0 for _, factor in left.terms):
        return Index.of(0) if expr.op == "%" else Index(tuple((atoms, factor // by) for atoms, factor in left.terms))
    quotient = BinOp(expr.op, simplified(expr.left), simplified(expr.right)) if is_short else expr
    name = symbolic.text(quotient)
    divisions[name] = quotient
    return Index.of(Var(name))


def _with_divisions(expr: IntExpr, divisions: Mapping[str, IntExpr]) -> IntExpr:
    if isinstance(expr, Name):
        return divisions.get(expr.name, expr)
    if isinstance(expr, BinOp):
        return BinOp(expr.op, _with_divisions(expr.left, divisions), _with_divisions(expr.right, divisions))
    return expr


def _shifted_quotient(index: Index, is_certain: Callable[[Condition], bool]) -> Quotient | None:
    """Return a quotient less a number as one quotient: ``(H+1)//2 - 1`` is ``(H-1)//2``."""
    for term in index.terms:
        atoms, factor = term
        rest = (index - Index((term,))).constant
        if factor == len(atoms) == 1 and isinstance(atoms[0], Quotient) and rest is not None and rest < 0:
            dividend = atoms[0].of + atoms[0].by * rest
            if is_certain(Condition(dividend, Relation.AT_LEAST)):
                return Quotient(dividend, atoms[0].by)
    return None


def _shifted_ceiling(index: Index, is_certain: Callable[[Condition], bool]) -> IntExpr | None:
    """Return a number less a quotient as one rounded up: ``1 - (3-H)//4`` is ``ceil((H+1)/4)``."""
    for term in index.terms:
        atoms, factor = term
        rest = (index - Index((term,))).constant
        if factor == -1 and len(atoms) == 1 and isinstance(atoms[0], Quotient) and rest is not None and rest > 0:
            dividend = atoms[0].of - atoms[0].by * rest
            if _is_below_zero(dividend, is_certain):
                return _atom(Quotient(dividend, atoms[0].by), is_certain)
    return None


def _sum(index: Index, is_certain: Callable[[Condition], bool]) -> IntExpr | None:
    """Return a sum: what is added first, then what is subtracted, then the number."""
    total: IntExpr | None = None
    signed = [(_is_negative(*term, is_certain), *term) for term in index.terms]
    for is_negative, atoms, factor in sorted(signed, key=lambda term: (term[0], not term[1])):
        term = _product(atoms, abs(factor), is_certain)
        if term is None:
            return None
        if total is None:
            total = BinOp("-", Const(0), term) if is_negative else term
        else:
            total = BinOp("-" if is_negative else "+", total, term)
    return Const(0) if total is None else total


def _is_negative(atoms: tuple[Atom, ...], factor: int, is_certain: Callable[[Condition], bool]) -> bool:
    """Whether an odd number of the factors of a term is below zero, so that a minus is written before it."""
    negative_atoms = [atom for atom in atoms if isinstance(atom, Quotient) and _is_below_zero(atom.of, is_certain)]
    return (factor < 0) != (len(negative_atoms) % 2 == 1)


def _is_below_zero(index: Index, is_certain: Callable[[Condition], bool]) -> bool:
    return is_certain(Condition(-index, Relation.AT_LEAST)) and not is_certain(Condition(index, Relation.AT_LEAST))


def _product(atoms: tuple[Atom, ...], factor: int, is_certain: Callable[[Condition], bool]) -> IntExpr | None:
    product: IntExpr | None = Const(factor) if factor != 1 or not atoms else None
    for atom in atoms:
        written = _atom(atom, is_certain)
        if written is None:
            return None
        product = written if product is None else BinOp("*", product, written)
    return product


def _atom(atom: Atom, is_certain: Callable[[Condition], bool]) -> IntExpr | None:
    if isinstance(atom, Let):
        return expression(atom.parts[0], is_certain) if atom.kind is LetKind.SUM else None
    if not isinstance(atom, Quotient | Remainder):
        return Name(atom.name)
    if isinstance(atom, Quotient) and _is_below_zero(atom.of, is_certain):
        of, by = expression(-atom.of, is_certain), expression(atom.by, is_certain)
        return None if of is None or by is None else BinOp("ceil", of, by)
    of, by = expression(atom.of, is_certain), expression(atom.by, is_certain)
    if of is None or by is None or not is_certain(Condition(atom.of, Relation.AT_LEAST)):
        return None
    if isinstance(atom, Remainder):
        return BinOp("%", of, by)
    is_exact = is_certain(Condition(atom.of % atom.by, Relation.EQUAL))
    return BinOp("/" if is_exact else "floor", of, by)
