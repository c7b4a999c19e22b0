"""Intervals of expressions hold every value that the expressions have, computed with Python's integers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openinfer.dtypes import BOOL, F32, I8, I32, I64
from openinfer.expr import tree
from openinfer.expr.tree import Expr
from openinfer.random_inputs.intervals import Interval, interval_of

X, Y = tree.Input(0, I64), tree.Input(1, I64)
Both = tuple[Expr, Callable[[int, int], int]]

LEAVES: st.SearchStrategy[Both] = st.one_of(
    st.sampled_from([(X, lambda x, _: x), (Y, lambda _, y: y)]),
    st.integers(-9, 9).map(lambda number: (tree.literal(number, I64), lambda *_: number)),
)


def grown(parts: st.SearchStrategy[Both]) -> st.SearchStrategy[Both]:
    pair = st.tuples(parts, parts)
    return st.one_of(
        pair.map(lambda p: (tree.add(p[0][0], p[1][0]), lambda x, y: p[0][1](x, y) + p[1][1](x, y))),
        pair.map(lambda p: (tree.sub(p[0][0], p[1][0]), lambda x, y: p[0][1](x, y) - p[1][1](x, y))),
        pair.map(lambda p: (tree.mul(p[0][0], p[1][0]), lambda x, y: p[0][1](x, y) * p[1][1](x, y))),
        pair.map(lambda p: (tree.minimum(p[0][0], p[1][0]), lambda x, y: min(p[0][1](x, y), p[1][1](x, y)))),
        pair.map(lambda p: (tree.maximum(p[0][0], p[1][0]), lambda x, y: max(p[0][1](x, y), p[1][1](x, y)))),
        parts.map(lambda p: (tree.absolute(p[0]), lambda x, y: abs(p[1](x, y)))),
        parts.map(lambda p: (tree.neg(p[0]), lambda x, y: -p[1](x, y))),
        st.tuples(parts, parts, st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"])).map(chosen),
    )


def chosen(parts: tuple[Both, Both, str]) -> Both:
    (one, of_one), (other, of_other), name = parts
    holds = {
        "lt": int.__lt__,
        "le": int.__le__,
        "gt": int.__gt__,
        "ge": int.__ge__,
        "eq": int.__eq__,
        "ne": int.__ne__,
    }[name]
    expr = tree.select(getattr(tree, name)(one, other), one, tree.neg(other))
    return expr, lambda x, y: of_one(x, y) if holds(of_one(x, y), of_other(x, y)) else -of_other(x, y)


@given(st.recursive(LEAVES, grown, max_leaves=6), st.tuples(*[st.integers(-20, 20)] * 4), st.data())
def test_every_value_lies_in_the_interval(both: Both, ends: tuple[int, ...], data: st.DataObject) -> None:
    expr, value = both
    bounds = [Interval(min(ends[:2]), max(ends[:2])), Interval(min(ends[2:]), max(ends[2:]))]
    x, y = (data.draw(st.integers(int(each.low), int(each.high))) for each in bounds)

    interval = interval_of(expr, bounds)

    assert interval is not None
    assert interval.low <= value(x, y) <= interval.high


@pytest.mark.parametrize(
    ("expr", "inputs", "expected"),
    [
        (tree.cast(tree.Input(0, F32), I32), [Interval(-1.5, 2.9)], Interval(-1, 2)),
        (tree.floor(tree.Input(0, F32)), [Interval(-1.5, 2.9)], Interval(-2, 2)),
        (tree.cast(X, I8), [Interval(0, 127)], Interval(0, 127)),
        (tree.cast(X, I8), [Interval(0, 128)], None),
        (tree.exp(tree.Input(0, F32)), [Interval(0, 1)], None),
        (tree.add(X, Y), [Interval(0, 1), None], None),
        (tree.logical_not(tree.lt(X, tree.literal(3, I64))), [Interval(5, 9)], Interval(1, 1)),
        (tree.cast(tree.Input(0, BOOL), I64), [Interval(0, 1)], Interval(0, 1)),
    ],
)
def test_bounds_of_conversions_and_of_what_has_none(
    expr: Expr, inputs: list[Interval | None], expected: Interval | None
) -> None:
    assert interval_of(expr, inputs) == expected


@pytest.mark.parametrize(("low", "high", "holds"), [(0, 4, True), (1, 3, True), (-1, 3, False), (1, 5, False)])
def test_an_interval_holds_another_with_both_ends(low: int, high: int, holds: bool) -> None:
    assert Interval(0, 4).holds(Interval(low, high)) is holds
