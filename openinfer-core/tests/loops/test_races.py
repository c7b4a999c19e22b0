"""Iterations that are said not to disturb one another touch different elements: tried out one by one."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from openinfer.affine import Index, Var, Within
from openinfer.dtypes import F32, I8, I32
from openinfer.expr import tree
from openinfer.loops import Bind, Buffer, For, If, Load, Register, Set, Store, value_of
from openinfer.loops.races import find_race

steps, extents = st.integers(1, 12), st.integers(1, 4)


@given(steps, steps, extents, extents, st.lists(st.integers(-20, 20), min_size=1, max_size=4))
def test_no_element_is_written_by_two_iterations_without_a_race(
    outer: int, inner: int, rows: int, columns: int, offsets: list[int]
) -> None:
    i, j = Var("i", rows), Var("j", columns)
    buffer, one = Buffer("y", F32, Index.of(1000)), value_of(tree.literal(1.0, F32), {})
    stores = tuple(Store(buffer, outer * Index.of(i) + inner * Index.of(j) + 100 + offset, one) for offset in offsets)

    race = find_race(i, Bind.GROUP, (For(j, Bind.SERIAL, stores),))

    touched = [
        {outer * row + inner * column + offset for column, offset in product(range(columns), offsets)}
        for row in range(rows)
    ]
    is_apart = all(a.isdisjoint(b) for n, a in enumerate(touched) for b in touched[:n])
    assert race is not None or is_apart


def test_the_stores_of_a_tile_lie_apart_from_those_of_other_tiles() -> None:
    i, j = Var("i", 5), Var("j", 3)
    buffer, one = Buffer("y", F32, Index.of(240)), value_of(tree.literal(1.0, F32), {})
    tile = tuple(
        Store(buffer, Index.of(i) * 48 + Index.of(j) * 4 + 12 * m + n, one) for m in range(4) for n in range(4)
    )

    assert find_race(i, Bind.GROUP, (For(j, Bind.SERIAL, tile),)) is None
    assert find_race(j, Bind.GROUP, (For(i, Bind.SERIAL, tile),)) is None
    one_more = Store(buffer, Index.of(i) * 48 + Index.of(j) * 4 + 4, one)
    assert find_race(j, Bind.GROUP, (For(i, Bind.SERIAL, (*tile, one_more)),)) is not None


def test_one_element_may_be_stored_by_the_first_iteration_alone() -> None:
    i = Var("i", 4)
    buffer, one = Buffer("y", F32, Index.of(8)), value_of(tree.literal(1.0, F32), {})
    first = If((Within(Index.of(i), Index.of(1)),), (Store(buffer, Index(), one),))
    second = If((Within(Index.of(i) - 1, Index.of(1)),), (Store(buffer, Index(), one),))
    read = value_of(tree.Input(0, F32), {0: Load(buffer, Index())})
    into = Store(Buffer("z", F32, Index.of(4)), Index.of(i), read)

    assert find_race(i, Bind.LOCAL, (first,)) is None
    assert find_race(i, Bind.LOCAL, (second,)) is not None
    assert find_race(i, Bind.LOCAL, (first, into)) is not None
    assert find_race(i, Bind.LOCAL, (first, Store(buffer, Index.of(i), one))) is not None
    assert find_race(i, Bind.LOCAL, (first, Store(buffer, Index.of(i) + 1, one))) is None


def test_lanes_may_be_added_to_an_integer_that_nothing_else_uses() -> None:
    lane, total = Var("l", 16), Register("total", I32)
    x = value_of(tree.cast(tree.Input(0, I8), I32), {0: Load(Buffer("x", I8, Index.of(16)), Index.of(lane))})

    def added(expr: tree.Expr) -> Set:
        return Set("total", value_of(tree.substitute(expr, {1: x.expr}), {0: x.leaves[0], ~0: total}))

    term = tree.Input(1, I32)
    joined = added(tree.add(tree.Input(~0, I32), term))
    read = Store(Buffer("y", I32, Index.of(16)), Index.of(lane), value_of(tree.Input(0, I32), {0: total}))

    assert find_race(lane, Bind.LANES, (joined, joined)) is None
    assert find_race(lane, Bind.LANES, (joined, read)) is not None
    assert find_race(lane, Bind.LANES, (added(tree.sub(tree.Input(~0, I32), term)),)) is not None
    assert find_race(lane, Bind.LANES, (added(tree.add(tree.Input(~0, I32), tree.mul(tree.Input(~0, I32), term))),))
    assert find_race(lane, Bind.LOCAL, (joined,)) is not None
