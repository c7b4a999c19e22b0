"""Elements of a product at places of its sides: what the forms of products for groups of threads have in common."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from openinfer.affine import Index, Var, Within, extent_of
from openinfer.affine.digits import digits_of, rejoined
from openinfer.affine.index import variables_of
from openinfer.dtypes import I64
from openinfer.expr import tree
from openinfer.expr.linear import linearise
from openinfer.loops import If, Lookup, Number, value_of
from openinfer.loops.substitution import indices_of, rewritten, substituted
from openinfer.lower.accesses import access
from openinfer.lower.names import Names
from openinfer.lower.tensors import buffers_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine.index import Atom
    from openinfer.compute import Computation, Element
    from openinfer.expr.tree import Expr
    from openinfer.layout import Layout
    from openinfer.loops import Leaf, Statement, Value
    from openinfer.lower.product_sides import Product


class ProductPlaces:
    """The tensors of a product as buffers, and statements about places of its rows and columns.

    Attributes:
        layouts: of all tensors, by name.
        buffers: likewise.
        names: those that are in use.
    """

    def __init__(self, computation: Computation, product: Product, layouts: Mapping[str, Layout]) -> None:
        self.computation, self.product, self.layouts = computation, product, layouts
        self.buffers = buffers_of(computation, layouts)
        self.names = Names({*self.buffers, *(var.name for var in (*product.stage.axes, *product.folded))})
        self.rows, self.columns = (prod(map(extent_of, axes)) for axes in (product.rows, product.columns))
        self.depth = prod(map(extent_of, product.folded))

    def leaf(self, element: Element) -> Leaf:
        """Return an element at the axes of the stage."""
        accessed = access(element, self.buffers, self.layouts)
        return accessed.leaf(accessed.index({}), accessed.tests({}))

    def value(self, expr: Expr, more: Mapping[int, Leaf] | None = None) -> Value:
        """Return an expression over elements of the stage, and over others."""
        used = [number for number in linearise(expr).inputs if number >= 0 and number not in (more or {})]
        leaves = {number: self.leaf(self.product.stage.elements[number]) for number in used}
        return value_of(expr, {**leaves, **(more or {})})

    def at(
        self, store: Statement, sides: Sequence[tuple[Sequence[Var], Index]], *, by_axis: bool
    ) -> tuple[Statement, ...]:
        """Return a store at places of axes, which get names where digits of them are used: each axis, or the place."""
        named: list[Statement] = []
        for axes, index in sides:
            place = Var("place'", prod(map(extent_of, axes)))
            (joined,) = rewritten(substituted((store,), digits_along(Index.of(place), axes)), rejoined)
            if not any(place in variables_of(atom) for atom in _divided(joined)):
                (store,) = substituted((joined,), {place: index})
                continue
            if by_axis:
                variables = {
                    axis: (Var(self.names.new(f"{axis.name}_"), axis.extent), at)
                    for axis, at in digits_along(index, axes).items()
                }
            else:
                store, variables = joined, {place: (Var(self.names.new("place"), place.extent), index)}
            named += [Lookup(var, value_of(tree.Input(0, I64), {0: Number(at, I64)})) for var, at in variables.values()]
            (store,) = substituted((store,), {old: Index.of(var) for old, (var, _) in variables.items()})
        return (*named, store)


def _divided(statement: Statement) -> list[Atom]:
    """Return the quotients and remainders in the indices of a statement."""
    atoms = (atom for index in indices_of((statement,)) for factors, _ in index.terms for atom in factors)
    return [atom for atom in atoms if not isinstance(atom, Var)]


def where(test: Within, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Return statements under a test, unless it is certain."""
    return body if test.is_certain else (If((test,), body),)


def digits_along(place: Index, axes: Sequence[Var]) -> dict[Var, Index]:
    """Return the place along each of some axes, from one place in row-major order."""
    return dict(zip(axes, digits_of(place, list(map(extent_of, axes))), strict=True))
