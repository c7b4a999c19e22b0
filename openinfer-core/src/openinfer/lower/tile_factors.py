"""Factors that matrix units take: elements of two tensors, which lie at even steps in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var
from openinfer.affine.digits import rejoined
from openinfer.compute import Read
from openinfer.expr import tree
from openinfer.loops import Load
from openinfer.lower.product_places import digits_along

if TYPE_CHECKING:
    from openinfer.lower.product_places import ProductPlaces
    from openinfer.lower.product_sides import Product


def plain_factors(product: Product) -> tuple[Read, Read] | None:
    """Return the elements of a left and a right tensor whose product is a term; None: it is more than that."""
    match product.term:
        case tree.Apply("mul", (a, b)):
            numbers = (_number(a), _number(b))
        case _:
            return None
    sides = {factor.is_left: _read(product, factor.expr) for factor in product.factors if factor.number in numbers}
    left, right = sides.get(True), sides.get(False)
    if left is None or right is None or left.dtype is not right.dtype or len(product.factors) != 2:
        return None
    return left, right


def _number(expr: tree.Expr) -> int | None:
    """Return the input that an expression is, converted or not."""
    match expr:
        case tree.Input(number):
            return number
        case tree.Apply("cast", (tree.Input(number),)):
            return number
        case _:
            return None


def _read(product: Product, expr: tree.Expr) -> Read | None:
    number = _number(expr)
    element = None if number is None else product.stage.elements[number]
    return element if isinstance(element, Read) else None


@dataclass(frozen=True, slots=True)
class Steps:
    """The address of a factor: its place times one number, plus its term times another, plus what is common."""

    first: Index
    place: int
    term: int

    @property
    def by_terms(self) -> bool:
        """Whether neighbours are terms, not places."""
        return self.term == 1 and self.place != 1


def steps_of(places: ProductPlaces, read: Read, *, is_left: bool) -> Steps | None:
    """Return how the address of a factor depends on place and term; None: not by steps, or some are padding."""
    axes = places.product.rows if is_left else places.product.columns
    place = Var("place'", places.rows if is_left else places.columns)
    term = Var("term'", places.depth)
    values = {**digits_along(Index.of(place), axes), **digits_along(Index.of(term), places.product.folded)}
    load = places.leaf(read)
    if not isinstance(load, Load) or load.guards:
        return None
    address = rejoined(load.address.substituted(values))
    of_place, of_term = address.coefficient(place), address.coefficient(term)
    if of_place is None or of_term is None or 1 not in (of_place, of_term):
        return None
    return Steps(address.substituted({place: Index(), term: Index()}), of_place, of_term)
