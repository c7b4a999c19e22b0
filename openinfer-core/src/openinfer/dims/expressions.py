"""Sizes as dimensions of the language: ``2*B``, ``T-1``, ``floor((H-1)/2)``."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from openinfer.affine import Index, Quotient, Remainder, Var
from openinfer.dims.condition import Condition, Relation
from openinfer.dims.knowledge import Knowledge
from openinfer.dims.lets import OPERATORS, Let, LetKind, Signed, division, every_symbol, lets_in
from openinfer.symbolic import BinOp, Const, LevelsError, Name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from openinfer.affine import Interval
    from openinfer.affine.index import Atom
    from openinfer.symbolic import Division, IntExpr

MOST_TERMS = 64
"""Terms up to which a product is one of sums: they grow without bound."""


def expression(index: Index, is_certain: Callable[[Condition], bool]) -> IntExpr | None:
    """Return a size as the language writes it, or None where it has no expression for it, such as ``max(T, U)``.

    The language divides what is not negative only, and ``/`` leaves no remainder: where that is not certain, there is
    no expression. What is certainly not above 0 is divided without its sign: ``-x // n`` is ``-ceil(x/n)``. Neither is
    there one for a sum of more terms than an expression has levels.
    """
    try:
        return _written(index, is_certain)
    except LevelsError:
        return None


def _written(index: Index, is_certain: Callable[[Condition], bool]) -> IntExpr | None:
    quotient = _shifted_quotient(index, is_certain)
    if quotient is not None:
        return _atom(quotient, is_certain)
    written = _sum(index, is_certain)
    return _shifted_ceiling(index, is_certain) if written is None else written


def simplified(expr: IntExpr) -> IntExpr:
    """Return an equal expression with like terms collected, such as ``2*D`` for ``D+D``.

    It has a value wherever the given one has, and may have one where that has none.
    """

    def divide(operator: Division, of: Index, by: Index, _: BinOp) -> Index:
        number = by.constant or 0
        if number < 1 or any(factor % number for _, factor in of.terms):
            return division(operator, of, by)
        return Index() if operator == "%" else of.divided(by)[0]

    written = expression(collected(expr, lambda name: Index.of(Var(name)), divide), lambda _: False)
    return expr if written is None else written


def index_of_expression(
    expr: IntExpr,
    value_of: Callable[[str], Index],
    divided: Callable[[Division, Index, Index, BinOp], Index] = lambda operator, of, by, _: division(operator, of, by),
) -> Index:
    """Return an expression of the language over what its names are.

    Where its divisions have no value, one of the index has none.

    Args:
        divided: returns a quotient or a remainder that is not a number, as for `collected`.
    """
    divisions: list[Let] = []

    def divide(operator: Division, of: Index, by: Index, written: BinOp) -> Index:
        index = divided(operator, of, by, written)
        divisions.extend(let for let in lets_in(index) if let.kind in OPERATORS)
        return index

    index = collected(expr, value_of, divide, _kept_product)
    for let in reversed(divisions):
        # One that falls out, such as that of ``0*floor(a/b)``, is an error all the same where it has no value.
        if let not in every_symbol(index):
            index = index + division("%", Index.of(let), Index.of(1))
    return index


def expression_interval(expr: IntExpr, names: Mapping[str, Interval]) -> Interval:
    """Return the smallest and the largest value of an expression whose names have these; others may be anything."""
    return Knowledge(names).interval(index_of_expression(expr, lambda name: Index.of(Signed(name))))


def _kept_product(left: Index, right: Index) -> Index:
    """Return a product in which a sum of numbers without a bound is one symbol: ``(a-b)*(a-b)`` may fit where ``a*a``
    does not."""
    if left.constant is None and right.constant is None:
        left, right = (
            Index.of(Let.of(LetKind.SUM, factor)) if len(factor.terms) > 1 and factor.interval.low is None else factor
            for factor in (left, right)
        )
    return multiplied(left, right)


def collected(
    expr: IntExpr,
    value_of: Callable[[str], Index],
    divide: Callable[[Division, Index, Index, BinOp], Index],
    multiply: Callable[[Index, Index], Index] | None = None,
) -> Index:
    """Return an expression as a sum of products of what its names are.

    Args:
        multiply: returns a product; None: `multiplied`.
        divide: returns a quotient or a remainder that is not a number, from its operator, its operands and itself.
    """
    if isinstance(expr, Const):
        return Index.of(expr.value)
    if isinstance(expr, Name):
        return value_of(expr.name)
    left, right = (collected(side, value_of, divide, multiply) for side in (expr.left, expr.right))
    match expr.op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return (multiply or multiplied)(left, right)
        case operator:
            number = division(operator, left, right)
            return divide(operator, left, right, expr) if number.constant is None else number


def multiplied(left: Index, right: Index) -> Index:
    """Return a product; of sums with many terms, which multiply in number, each is one symbol."""
    if len(left.terms) * len(right.terms) <= MOST_TERMS:
        return left * right
    (first, second) = (
        Index.of(Let.of(LetKind.SUM, factor)) if len(factor.terms) > 1 else factor for factor in (left, right)
    )
    return first * second


def product(factors: Iterable[Index]) -> Index:
    """Return the product of some sizes."""
    return reduce(multiplied, factors, Index.of(1))


def with_values(
    index: Index, values: Mapping[str, Index], low: Callable[[Index], int | None] = lambda index: index.interval.low
) -> Index:
    """Return an index over symbols with the value of each, by name, and with divisions of the language alone.

    Args:
        low: the least value of an index over the symbols.

    Raises:
        ValueError: it divides an index that has no least value.
    """
    total = Index()
    for atoms, factor in index.terms:
        product = Index.of(factor)
        for atom in atoms:
            product = multiplied(product, _with_values(atom, values, low))
        total = total + product
    return total


def _with_values(atom: Atom, values: Mapping[str, Index], low: Callable[[Index], int | None]) -> Index:
    if isinstance(atom, Var):
        return values[atom.name]
    least, by = low(atom.of), with_values(atom.by, values, low)
    if least is None:
        raise ValueError(f"`{atom.of}` is divided, and has no least value")
    # The language divides numbers from 0 on only: a multiple of the divisor, which is at least 1, makes it one.
    added = max(0, -least)
    of = with_values(atom.of + atom.by * added, values, low)
    return division("floor", of, by) - added if isinstance(atom, Quotient) else division("%", of, by)


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
        return _let(atom, is_certain)
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


def _let(let: Let, is_certain: Callable[[Condition], bool]) -> IntExpr | None:
    parts = [expression(part, is_certain) for part in let.parts]
    first = parts[0]
    if let.kind is LetKind.SUM:
        return first
    operator, second = OPERATORS.get(let.kind), parts[-1]
    return None if operator is None or first is None or second is None else BinOp(operator, first, second)
