"""Attention as stages: scores of keys, their maximum, exponentials and sum, and the sum of values by weight."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer import dims
from openinfer.compute import Order
from openinfer.dims import is_size, surely
from openinfer.dtypes import BOOL, F64, I32, I64
from openinfer.expr import tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from openinfer.affine import Index, Var
    from openinfer.compute import Builder, Operand, Value
    from openinfer.dtypes import DType
    from openinfer.ops.attention import Attention

    Vector = Callable[[Index | Var, Index | Var, Index | Var, Index | Var], Value]
    """An element of an operand, by batch, head, position and place in the vector."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operands:
    """The operands of an attention: elements in the type of the computation, and the mask as it is stored."""

    query: Vector
    key: Vector
    value: Vector
    mask: Vector | None = None


def attended(k: Builder, how: Attention, given: Operands, dtype: DType) -> Callable[..., Value]:
    """Append the stages of an attention, except the last one.

    Return the function from batch, head, query and place in the vector to the value there.
    A key that is hidden has the score -inf. Its value is not read, so that an infinite one does no harm, and a query
    that sees no key yields 0: the greatest score seen has the weight 1, so that no other query has the total 0. A NaN
    among the scores is never the greatest of them; its weight is NaN, and so is the result.
    """
    rows = (how.batch, how.heads, how.queries)
    scores, weights = (k.temporary(dtype, *rows, how.valid) for _ in range(2))
    tops, totals = (k.temporary(dtype, *rows) for _ in range(2))
    hidden = k.constant(-math.inf, dtype)
    _scores(k, how, given, scores)

    b, h, i, j = k.axes(*rows, how.valid)
    tops[b, h, i] = k.fold(scores[b, h, i, j], (j,), tree.maximum, start=-math.inf, order=Order.ANY)

    b, h, i, j = k.axes(*rows, how.valid)
    weight = k.apply(tree.exp, scores[b, h, i, j] - tops[b, h, i])
    weights[b, h, i, j] = k.apply(tree.select, _equal(k, scores[b, h, i, j], hidden), k.constant(0, dtype), weight)

    b, h, i, j = k.axes(*rows, how.valid)
    totals[b, h, i] = k.sum(weights[b, h, i, j], (j,))

    def result(b: Index | Var, h: Index | Var, i: Index | Var, d: Index | Var) -> Value:
        j, zero = k.axis(how.valid), k.constant(0, dtype)
        part = weights[b, h, i, j] * given.value(b, _shared(how, h), j, d)
        seen = k.apply(tree.select, _equal(k, scores[b, h, i, j], hidden), zero, part)
        mean = k.sum(seen, (j,)) / totals[b, h, i]
        return k.apply(tree.select, _equal(k, totals[b, h, i], zero), zero, mean)

    return result


def _scores(k: Builder, how: Attention, given: Operands, scores: Operand) -> None:
    """Append the stage of ``scale q k`` with its cap and mask; -inf for a key that the query does not see."""
    dtype = scores.dtype
    b, h, i, j = k.axes(*scores.shape)
    d = k.axis(how.depth)
    score = _scale(k, how, dtype) * k.sum(given.query(b, h, i, d) * given.key(b, _shared(how, h), j, d), (d,))
    if how.softcap > 0:
        cap = k.constant(how.softcap, dtype)
        score = cap * k.apply(tree.tanh, score / cap)
    shown = list(_shown(k, how, i, j))
    if given.mask is not None:
        mask = given.mask(b, h, i, j)
        if mask.dtype is BOOL:
            shown.append(mask)
        else:
            score = score + mask.cast(dtype)
    for test in shown:
        score = k.apply(tree.select, test, score, k.constant(-math.inf, dtype))
    scores[b, h, i, j] = score


def _scale(k: Builder, how: Attention, dtype: DType) -> Value:
    """Return the factor of the products, computed by the program where their number of terms is a size."""
    if not is_size(how.depth) or how.stated_scale is not None:
        return k.constant(how.scale, dtype)
    return (1.0 / k.apply(tree.sqrt, k.constant(dims.max(how.depth, 1), F64))).cast(dtype)


def _shown(k: Builder, how: Attention, i: Var, j: Var) -> Iterator[Value]:
    """Yield the conditions under which a query sees a key, without those that always hold."""
    dtype = I32 if surely(lambda: how.queries + how.valid < 1 << 31) else I64
    distances: list[Index] = []
    if how.causal:
        distances.append(i + _held(how.offset, how) - j)
    if how.window is not None:
        distances.append(j - i - _held(how.offset - how.window, how))
    for distance in distances:
        low = distance.interval.low
        if low is None or low < 0:
            yield k.position(distance, dtype) >= 0


def _held(offset: int, how: Attention) -> int:
    """Return an offset between queries and keys, or the nearest one from which on nothing changes any more."""
    return dims.max(-how.queries, dims.min(offset, how.valid))


def _shared(how: Attention, head: Index | Var) -> Index | Var:
    """Return the head of keys and values, which some heads of queries share."""
    group = how.group
    return head if surely(lambda: group <= 1) else head // group


def _equal(k: Builder, value: Value, other: Value) -> Value:
    return k.apply(tree.eq, value, other)
