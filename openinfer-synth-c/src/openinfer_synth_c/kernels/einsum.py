"""Sums of products: loops over the result, and in them over what is summed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.expr import tree
from openinfer.expr.c_renderer import c_type, literal_text
from openinfer.expr.linear import linearise
from openinfer.ops.catalog.einsum import equation_for
from openinfer.ops.strides import contiguous
from openinfer_synth_c.index_text import flat, for_head
from openinfer_synth_c.registration import FLOATS, INTEGERS, kernel

if TYPE_CHECKING:
    from openinfer.dtypes import DType
    from openinfer.expr.tree import Expr
    from openinfer.ops.equations import Equation
    from openinfer_synth_c.site import KernelSite


@kernel("einsum", dtypes=(*FLOATS, *INTEGERS))
def einsum(site: KernelSite) -> None:
    """The sum in the order of its letters; integers wrap."""
    code, equation = site.code, equation_for(site.call.inputs, site.call.settings)
    dtype = site.input(0).type.dtype
    counters = [f"i{label}" for label in equation.output]
    with code.loops(for_head(c, n) for c, n in zip(counters, equation.shape, strict=True)):
        code.line(f"{c_type(dtype)} total = {literal_text(dtype, 0)};")
        summed = equation.summed
        if 0 not in (equation.extents[label] for label in summed):
            with code.loops(for_head(f"i{label}", equation.extents[label]) for label in summed):
                elements = _elements(site, equation)
                code.line(f"total = {code.compute(linearise(_term(len(elements), dtype)), elements, 't')};")
        site.store.write(code, counters, "total")


def _elements(site: KernelSite, equation: Equation) -> dict[int, str]:
    """Return the sum so far and the element of each input; a dim of 1 that is broadcast is read at its one place."""
    found = {0: "total"}
    for number, labels in enumerate(equation.inputs):
        x = site.input(number)
        shape = x.type.shape
        places = [f"i{label}" if shape[n] == equation.extents[label] else "0" for n, label in enumerate(labels)]
        found[number + 1] = x.at(flat(places, contiguous(shape)))
    return found


def _term(count: int, dtype: DType) -> Expr:
    """Return the sum so far plus the product of the elements."""
    product: Expr = tree.Input(1, dtype)
    for number in range(2, count):
        product = tree.mul(product, tree.Input(number, dtype))
    return tree.add(tree.Input(0, dtype), product)
