"""Sums of products of small integers without sign, modulo 2^32: the same bits as those of i32, which wrap.

C compilers make dot products of loops that add products of bytes, and of integers of 16 bits, as long as no overflow of
signed integers is in their way: there is none in arithmetic without sign.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

from openinfer.affine import Index, extent_of
from openinfer.compute.exact_sums import factors_of_sum
from openinfer.compute.stage import Total
from openinfer.compute.substitution import moved
from openinfer.dtypes import I32, U32
from openinfer.expr import tree
from openinfer.expr.linear import linearise

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.compute.stage import Stage
    from openinfer.expr.tree import Expr


def without_sign(stage: Stage) -> Stage | None:
    """Return a stage whose sum of products of small integers is one of u32; None: it has another fold."""
    factors = factors_of_sum(stage)
    if stage.fold is None or factors is None:
        return None
    combine = tree.add(tree.Input(~0, U32), tree.Input(~1, U32))
    term = tree.mul(*map(_in_u32, factors))
    total = Total(tree.literal(0, U32), term, combine)
    value = tree.substitute(stage.value, {~0: tree.cast(tree.Input(~0, U32), I32)})
    return replace(stage, value=value, fold=replace(stage.fold, totals=(total,)))


def with_written_out_terms(stage: Stage) -> Stage:
    """Return a stage without a fold whose value has all terms of its sum: the result of `without_sign`."""
    fold = stage.fold
    if fold is None:
        raise TypeError("terms are those of a fold")
    term = fold.totals[0].term
    numbers = [number for number in linearise(term).inputs if number >= 0]
    elements = list(stage.elements)
    total: Expr | None = None
    for values in product(*(range(extent_of(axis)) for axis in fold.axes)):
        at = {axis: Index.of(value) for axis, value in zip(fold.axes, values, strict=True)}
        inputs: dict[int, Expr] = {}
        for number in numbers:
            element = moved(stage.elements[number], at)
            if element not in elements:
                elements.append(element)
            inputs[number] = tree.Input(elements.index(element), element.dtype)
        following = tree.substitute(term, inputs)
        total = following if total is None else tree.add(total, following)
    value = tree.substitute(stage.value, {~0: tree.literal(0, U32) if total is None else total})
    return with_used_elements(replace(stage, elements=tuple(elements), value=value, fold=None))


def with_used_elements(stage: Stage) -> Stage:
    """Return a stage without the elements that neither its value nor the terms of its fold use."""
    fold = stage.fold
    totals = () if fold is None else fold.totals
    terms = [expr for total in totals for expr in (total.start, total.term) if expr is not None]
    used = sorted({number for expr in (*terms, stage.value) for number in linearise(expr).inputs if number >= 0})
    inputs: dict[int, Expr] = {
        number: tree.Input(position, stage.elements[number].dtype) for position, number in enumerate(used)
    }
    if fold is not None:
        fold = replace(fold, totals=tuple(_substituted(total, inputs) for total in totals))
    elements = tuple(stage.elements[number] for number in used)
    return replace(stage, elements=elements, value=tree.substitute(stage.value, inputs), fold=fold)


def _substituted(total: Total, inputs: Mapping[int, Expr]) -> Total:
    start = None if total.start is None else tree.substitute(total.start, inputs)
    return replace(total, start=start, term=tree.substitute(total.term, inputs))


def _in_u32(factor: Expr) -> Expr:
    """Return a cast of an element, or the difference of two, in u32."""
    match factor:
        case tree.Apply("cast", (tree.Input() as element,), _):
            return tree.cast(element, U32)
        case tree.Apply("sub", (a, b), _):
            return tree.sub(_in_u32(a), _in_u32(b))
        case _:
            raise TypeError("a factor is the cast of an element or the difference of two")
