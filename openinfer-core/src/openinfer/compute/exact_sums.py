"""Sums of products of small integers, computed in f32 where that rounds nothing.

f32 holds every integer up to 2^24. Where the magnitudes of all terms add up to no more, every partial total is exact,
in whatever order and with or without fused multiply-add, and the sum has the bits of that of integers. All machines
multiply vectors of f32 well; many take products of 32-bit integers apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openinfer.compute.stage import Read, Total
from openinfer.dtypes import F32, I32
from openinfer.expr import tree
from openinfer.expr.linear import linearise

if TYPE_CHECKING:
    from openinfer.compute.stage import Stage
    from openinfer.dtypes import DType
    from openinfer.expr.tree import Expr

LARGEST = 1 << 24
"""Up to here f32 has all integers."""


@dataclass(frozen=True, slots=True)
class SmallProducts:
    """The terms of a sum: products of two factors, which are casts of small integers or differences of these.

    Attributes:
        limits: the largest magnitude of each factor, by its types.
        reads: number of the element that each factor is; None: it is a difference.
    """

    limits: tuple[int, int]
    reads: tuple[int | None, int | None]


def small_products(stage: Stage) -> SmallProducts | None:
    """Return the factors of a sum of products whose users all want it as f32; None: it is something else."""
    factors = factors_of_sum(stage) if _is_cast(stage.value) else None
    if factors is None:
        return None
    left, right = factors
    limits = (_limit(left), _limit(right))
    if limits[0] is None or limits[1] is None:
        return None
    return SmallProducts((limits[0], limits[1]), (_read(stage, left), _read(stage, right)))


def factors_of_sum(stage: Stage) -> tuple[Expr, Expr] | None:
    """Return the factors of the terms of a sum of i32, which are small integers; None: it is something else."""
    fold = stage.fold
    if fold is None or fold.running or len(fold.totals) != 1:
        return None
    match fold.totals[0]:
        case Total(tree.Literal(0), tree.Apply("mul", (left, right), dtype), combine) if dtype is I32:
            if linearise(combine) != linearise(tree.add(tree.Input(~0, I32), tree.Input(~1, I32))):
                return None
            return None if _limit(left) is None or _limit(right) is None else (left, right)
        case _:
            return None


def in_floats(stage: Stage) -> Stage:
    """Return a stage with `small_products` that computes them, and their sum, in f32."""
    fold = stage.fold
    if fold is None or not isinstance(fold.totals[0].term, tree.Apply):
        raise TypeError("a sum of products is a fold")
    left, right = fold.totals[0].term.args
    combine = tree.add(tree.Input(~0, F32), tree.Input(~1, F32))
    total = Total(tree.literal(0.0, F32), tree.mul(_as_real(left), _as_real(right)), combine)
    return replace(stage, value=_of_real(stage.value), fold=replace(fold, totals=(total,)))


def as_reals(stage: Stage, number: int) -> Stage:
    """Return a stage of `in_floats` that reads an element as f32, which its terms alone use."""
    read, fold = stage.elements[number], stage.fold
    if not isinstance(read, Read) or fold is None:
        raise TypeError(f"element {number} is not read in the terms of a fold")
    elements = list(stage.elements)
    elements[number] = replace(read, dtype=F32)
    total = fold.totals[0]
    totals = (replace(total, term=_without_cast(total.term, number)),)
    return replace(stage, elements=tuple(elements), fold=replace(fold, totals=totals))


def _without_cast(expr: Expr, number: int) -> Expr:
    match expr:
        case tree.Apply("cast", (tree.Input(input_number),), _) if input_number == number:
            return tree.Input(number, F32)
        case tree.Apply(function, args, dtype):
            return tree.Apply(function, tuple(_without_cast(arg, number) for arg in args), dtype)
        case _:
            return expr


def _limit(factor: Expr) -> int | None:
    """Return the largest magnitude of a factor; None: it is not small."""
    match factor:
        case tree.Apply("cast", (tree.Input(_, dtype),), _):
            return _small(dtype)
        case tree.Apply(
            "sub", (tree.Apply("cast", (tree.Input(_, a),), _), tree.Apply("cast", (tree.Input(_, b),), _)), _
        ):
            ends = (_small(a), _small(b))
            return None if ends[0] is None or ends[1] is None else ends[0] + ends[1]
        case _:
            return None


def _small(dtype: DType) -> int | None:
    return largest_of(dtype) if dtype.is_integer and dtype.bits <= 16 else None


def largest_of(dtype: DType) -> int | None:
    """Return the largest magnitude of a type; None: it is not one of integers."""
    if dtype.is_float or dtype.minimum is None or dtype.maximum is None:
        return None
    return max(-int(dtype.minimum), int(dtype.maximum))


def _read(stage: Stage, factor: Expr) -> int | None:
    match factor:
        case tree.Apply("cast", (tree.Input(number, _),), _) if isinstance(stage.elements[number], Read):
            return number
        case _:
            return None


def _is_cast(value: Expr) -> bool:
    """Return whether a value uses its total, and casts it to f32 wherever it does."""
    steps = linearise(value).instructions
    totals = {number for number, step in enumerate(steps) if step.function == "input" and step.index == ~0}
    users = [step for step in steps if totals & set(step.operands)]
    return bool(users) and all(step.function == "cast" and step.dtype is F32 for step in users)


def _as_real(factor: Expr) -> Expr:
    match factor:
        case tree.Apply("cast", (tree.Input() as element,), _):
            return tree.cast(element, F32)
        case tree.Apply("sub", (a, b), _):
            return tree.sub(_as_real(a), _as_real(b))
        case _:
            raise TypeError("a factor is the cast of an element or the difference of two")


def _of_real(value: Expr) -> Expr:
    match value:
        case tree.Apply("cast", (tree.Input(-1),), _):
            return tree.Input(~0, F32)
        case tree.Apply(function, args, dtype):
            return tree.Apply(function, tuple(map(_of_real, args)), dtype)
        case _:
            return value
