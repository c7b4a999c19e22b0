"""The two sides of a product: which axes tell its rows and columns apart, and what each side shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.compute import Order, Read
from openinfer.compute.stage import places_of
from openinfer.expr import tree
from openinfer.expr.linear import linearise
from openinfer.schedule.folds import joining

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.affine import Var
    from openinfer.compute import Stage, Total
    from openinfer.expr.tree import Expr


@dataclass(frozen=True, slots=True)
class Factor:
    """A part of a term that depends on the places of one side only: ``Input(number)`` in `Product.term`."""

    expr: Expr
    number: int
    is_left: bool


@dataclass(frozen=True, slots=True)
class Product:
    """A stage that adds up products.

    Attributes:
        rows, columns, both: axes that only factors of the left side use, only those of the right one, and all others.
        folded, total: the axes of a sum and how it is made; ``term`` is its term over factors.
    """

    stage: Stage
    rows: tuple[Var, ...]
    columns: tuple[Var, ...]
    both: tuple[Var, ...]
    factors: tuple[Factor, ...]
    folded: tuple[Var, ...]
    total: Total
    term: Expr


def product_of(stage: Stage) -> Product | None:
    """Return a stage as a product of two sides, or None if it is not a product."""
    fold = stage.fold
    if fold is None or fold.order is not Order.ANY or fold.running or len(fold.totals) != 1:
        return None
    (total,) = fold.totals
    is_plain = not stage.lookups and not stage.checks and not stage.is_sequential
    if joining(total) != "add" or not is_plain or not isinstance(total.start, tree.Literal) or total.start.value != 0:
        return None
    axes = [axis for axis in stage.axes if axis.extent != 1]
    if not all(isinstance(axis.extent, int) for axis in (*axes, *fold.axes)):
        return None
    sides = next(_sides(total.term, stage, axes), None)
    if sides is None:
        return None
    left, right = sides
    rows, columns = (tuple(axis for axis in axes if axis in side) for side in (left - right, right - left))
    both = tuple(axis for axis in stage.axes if axis not in (*rows, *columns))
    factors: list[Factor] = []
    term = _shared(total.term, stage, (left, right), axes, factors)
    return None if term is None else Product(stage, rows, columns, both, tuple(factors), fold.axes, total, term)


def used_axes(expr: Expr, stage: Stage, axes: Sequence[Var]) -> set[Var]:
    """Return which of some axes an expression of a stage depends on."""
    return {axis for axis in axes for number in _inputs(expr) if axis in _variables(stage, number)}


def _sides(expr: Expr, stage: Stage, axes: Sequence[Var]) -> Iterator[tuple[set[Var], set[Var]]]:
    """Yield the axes of both operands of a multiplication whose operands have axes of their own."""
    match expr:
        case tree.Apply("mul", (a, b)):
            left, right = used_axes(a, stage, axes), used_axes(b, stage, axes)
            if left - right and right - left:
                first = next(axis for axis in stage.axes if axis in left ^ right)
                yield (left, right) if first in left else (right, left)
        case _:
            pass
    if isinstance(expr, tree.Apply):
        for operand in expr.args:
            yield from _sides(operand, stage, axes)


def _shared(
    expr: Expr, stage: Stage, sides: tuple[set[Var], set[Var]], axes: Sequence[Var], factors: list[Factor]
) -> Expr | None:
    """Return a term in which the largest parts that depend on one side are factors; None: a part depends on neither."""
    if isinstance(expr, tree.Literal):
        return expr
    used = used_axes(expr, stage, axes)
    for is_left, side in zip((True, False), sides, strict=True):
        if used <= side:
            factor = next((other for other in factors if other.is_left == is_left and _equal(other.expr, expr)), None)
            if factor is None:
                factor = Factor(expr, len(factors), is_left)
                factors.append(factor)
            return tree.Input(factor.number, expr.dtype)
    if not isinstance(expr, tree.Apply):
        return None
    operands = [_shared(operand, stage, sides, axes, factors) for operand in expr.args]
    known_operands = [operand for operand in operands if operand is not None]
    if len(known_operands) < len(operands):
        return None
    return tree.Apply(expr.function, tuple(known_operands), expr.dtype)


def _equal(a: Expr, b: Expr) -> bool:
    return linearise(a) == linearise(b)


def _inputs(expr: Expr) -> set[int]:
    match expr:
        case tree.Input(number):
            return {number}
        case tree.Apply(_, operands):
            return {number for operand in operands for number in _inputs(operand)}
        case _:
            return set()


def _variables(stage: Stage, number: int) -> set[Var]:
    return {var for index in places_of(stage.elements[number]) for var in index.variables()}


def reads_of(factor: Factor, stage: Stage) -> list[Read]:
    """Return the elements of tensors that a factor is made of."""
    elements = (stage.elements[number] for number in sorted(_inputs(factor.expr)))
    return [element for element in elements if isinstance(element, Read)]
