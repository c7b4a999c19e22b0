"""Integer expressions of a plan, such as bounds of loops and indices of tables, as text."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from openinfer.dims import OPERATORS, Let, LetKind
from openinfer.plan.operands import Symbol

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.affine import Index
    from openinfer.affine.index import Atom
    from openinfer.plan.steps import LoopIndex, Register, ValueRef


def integer_text(
    index: Index,
    number: Callable[[int], str],
    named: Callable[[LoopIndex | ValueRef | Register], str],
    combined: Callable[[str, str, str], str],
) -> str:
    """Return an expression as text.

    Args:
        number: the text of a constant.
        named: the text of a loop's index, of the one element of a value, or of a register.
        combined: the text of an operation, from the texts of its left operand, the operator (``+ - * / %``, ``floor``
            or ``ceil``) and its right operand.
    """
    if index.constant is not None:
        return number(index.constant)
    total: str | None = None
    # What is subtracted comes last: a sum that begins with it would be one of 0 first.
    for atoms, factor in sorted(index.terms, key=lambda term: term[1] < 0):
        factors = [_atom_text(atom, number, named, combined) for atom in atoms]
        if abs(factor) != 1 or not factors:
            factors.insert(0, number(abs(factor)))
        term = reduce(lambda left, right: combined(left, "*", right), factors)
        if total is None:
            total = term if factor > 0 else combined(number(0), "-", term)
        else:
            total = combined(total, "+" if factor > 0 else "-", term)
    return total or number(0)


def _atom_text(
    atom: Atom,
    number: Callable[[int], str],
    named: Callable[[LoopIndex | ValueRef | Register], str],
    combined: Callable[[str, str, str], str],
) -> str:
    if isinstance(atom, Symbol):
        return named(atom.operand)
    if not isinstance(atom, Let):
        raise TypeError(f"{atom.text} is not a part of an expression of a plan")
    first, *others = (integer_text(part, number, named, combined) for part in atom.parts)
    return first if atom.kind is LetKind.SUM else combined(first, OPERATORS[atom.kind], *others)
