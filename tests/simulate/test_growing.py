"""Growing matrices, alone and in tables: sections 6.6 and 9.4 of the language, 7 of the runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.simulate import Executor, Simulator


def executor(text: str, **model: Any) -> Executor:
    return Simulator(oi.Model.from_arrays(**model), graph(text)).make_executor()


def matrix(
    statements: str, target: str = "y: f32[2, 2];", declaration: str = "A(i, j): f32[2, 2] @auto_dim(i, j)"
) -> str:
    return (
        f"dynamic {{ m: i32 @init(0); n: i32 @init(0); x: f32[3, 4] @init(1.0); }} volatile {{ {target} }}"
        f" persistent {{ {declaration}; }} block entry {{ {statements} return; }}"
    )


@pytest.mark.rule("runtime.caches.6")
def test_counts_grow_the_extents_and_never_shrink_them() -> None:
    """The figures are those of the reference's log: base [2,2], counts (3,2), (6,4), (9,6)."""
    ex = executor(matrix("cache.read A[m, n] >> y;"))
    shapes: list[tuple[int, ...]] = []
    for m, n in [(3, 2), (6, 4), (9, 6), (1, 1)]:
        ex.step(m=m, n=n)
        shapes.append(ex.fetch("y").shape)
    assert shapes == [(5, 4), (8, 6), (11, 8), (11, 8)]


@pytest.mark.rule("runtime.caches.7")
def test_growth_keeps_cells_in_place_and_fills_with_the_initial_value() -> None:
    ex = executor(
        matrix("cache.write x >> A[1, 2]; cache.read A[m, n] >> y;").replace(
            "j): f32[2, 2]", "j): f32[2, 2] @init(7.0)"
        )
    )
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    ex.step(x=x)
    np.testing.assert_array_equal(ex.fetch("y"), x)
    ex.step(x=x, m=3)
    with pytest.raises(oi.ShapeError, match=r"an entry of `A` is f32\[5,4\] here, the value is f32\[3,4\]"):
        ex.step(x=x)
    expected = np.full((5, 4), 7, np.float32)
    expected[:3] = x
    np.testing.assert_array_equal(ex.fetch("A"), expected)


@pytest.mark.rule("runtime.caches.7")
def test_growing_columns_keeps_rows_in_place() -> None:
    ex = executor(
        matrix("cache.write x >> A; cache.read A[m, n] >> y;", declaration="A(i, j): f32[3, 4] @auto_dim(i, j)")
    )
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    ex.step(x=x, m=1, n=2)
    expected = np.zeros((4, 6), np.float32)
    expected[:3, :4] = x
    np.testing.assert_array_equal(ex.fetch("A"), expected)


@pytest.mark.rule("runtime.links.7")
def test_a_matrix_starts_with_the_data_of_the_model() -> None:
    data = np.array([[1, 2], [3, 4]], np.float32)
    ex = executor(matrix("cache.read A[m] >> y; cache.reset A;"), arrays={"A": data})
    ex.step(m=1)
    assert ex.fetch("y").tolist() == [[1, 2], [3, 4], [0, 0]]
    np.testing.assert_array_equal(ex.fetch("A"), data)


@pytest.mark.rule("runtime.caches.6")
@pytest.mark.parametrize("access", ["A", "A[]"])
def test_the_whole_matrix_is_read_without_growth(access: str) -> None:
    ex = executor(matrix(f"cache.read {access} >> y;"))
    ex.step()
    assert ex.fetch("y").shape == (2, 2)


@pytest.mark.rule("runtime.caches.6")
def test_fewer_counts_leave_the_other_extents() -> None:
    ex = executor(matrix("cache.read A[m] >> y;"))
    ex.step(m=2)
    assert ex.fetch("y").shape == (4, 2)


SELECT = """
dynamic {{ x: f32[4, 3]; k: i32 @init(0); }} volatile {{ y: {target}; }}
constant {{ D: i32[2] @init(0); }}
persistent {{ A(i, j): f32[2, 2] @auto_dim(i, j); }}
block entry {{ cache.write x >> A[2, 1]; cache.read {access} >> y; return; }}
"""


@pytest.mark.rule("language.accesses.7", "language.expressions.2")
@pytest.mark.parametrize(
    ("access", "target", "selection"),
    [
        ("A[i, ]", "f32[1]", np.s_[2, :]),
        ("A[, j]", "f32[1]", np.s_[:, 1]),
        ("A[0..D+i, ]", "f32[1, 1]", np.s_[:, :]),
        ("A[0..D+i, 0..j]", "f32[1, 1]", np.s_[:, :1]),
        ("A[1..3, 2]", "f32[2]", np.s_[1:3, 2]),
        ("A[0..-1]", "f32[1, 1]", np.s_[:-1]),
        ("A[k, ..]", "f32[1]", np.s_[0]),
        ("A[i-1..i+1, ]", "f32[1, 1]", np.s_[1:3]),
    ],
)
def test_ranges_and_empty_slots_select_positions(access: str, target: str, selection: Any) -> None:
    ex = executor(SELECT.format(access=access, target=target), sizevars={"D": 2})
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    ex.step(x=x)
    np.testing.assert_array_equal(ex.fetch("y"), x[selection])


@pytest.mark.rule("runtime.caches.9", "runtime.caches.14")
@pytest.mark.parametrize(
    ("access", "said"),
    [
        ("A[m, ]", "position 2 of `i`"),
        ("A[0..m+1, ]", "ends at 3: the extent is 2"),
        ("A[, 0..-3]", "3 before the end"),
        ("A[m..1, ]", "before its start"),
        ("A[0-m, ]", "position -2"),
        ("A[0-m, n]", "count `i` of `A` is -2"),
    ],
)
def test_positions_outside_are_errors_and_nothing_grows(access: str, said: str) -> None:
    rank = "y: f32[2];" if ", ]" in access and ".." not in access else "y: f32[2, 2];"
    ex = executor(matrix(f"cache.read {access} >> y;", rank))
    with pytest.raises(oi.CacheIndexError, match=said) as caught:
        ex.step(m=2, n=1)
    assert caught.value.code == "cache-index"
    assert ex.fetch("A").shape == (2, 2)


@pytest.mark.rule("runtime.caches.8")
def test_a_fixed_count_may_be_reached_and_not_passed() -> None:
    ex = executor(matrix("cache.read A[m, n] >> y;", declaration="A(i, j): f32[2, 2] @auto_dim(i, j) @fixed(i=3)"))
    ex.step(m=3)
    assert ex.fetch("y").shape == (5, 2)
    with pytest.raises(oi.CacheLimitError, match="count `i` of `A` is 4") as caught:
        ex.step(m=4, n=9)
    assert caught.value.code == "cache-limit"
    assert ex.fetch("A").shape == (5, 2)


@pytest.mark.rule("runtime.caches.12")
def test_reset_brings_the_counts_back() -> None:
    ex = executor(matrix("cache.read A[m, n] >> y; cache.reset A;"))
    ex.step(m=3, n=3)
    assert ex.fetch("A").shape == (2, 2)


TABLE = """
dynamic {{ x: f32[2, 2] @init(1.0); l: i32 @init(0); m: i32 @init(0); n: i32 @init(0); }} volatile {{ y: {target}; }}
persistent {{ C(k, i, j): f32[2, 2] @table @auto_dim(i, j) @init(-1.0); }}
block entry {{ {statements} return; }}
"""


def in_table(statements: str, target: str = "f32[2, 2]") -> Executor:
    return executor(TABLE.format(statements=statements, target=target))


@pytest.mark.rule("language.accesses.8")
def test_counts_belong_to_all_entries_of_a_table() -> None:
    ex = in_table("cache.write x >> C[0]; cache.write x >> C[2]; cache.read C[l, m, n] >> y;")
    ex.step(l=1, m=1, n=2)
    assert ex.fetch("y").tolist() == [[-1] * 4] * 3
    expected = np.full((3, 3, 4), -1, np.float32)
    expected[[0, 2], :2, :2] = 1
    np.testing.assert_array_equal(ex.fetch("C"), expected)


@pytest.mark.rule("language.accesses.8")
def test_a_slice_of_a_table_of_growing_matrices_is_one_stacked_tensor() -> None:
    ex = in_table("cache.write x >> C[1]; cache.read C[0..4, m, n] >> y;", "f32[4, 1, 1]")
    ex.step(m=3, n=1)
    expected = np.full((4, 5, 3), -1, np.float32)
    expected[1, :2, :2] = 1
    np.testing.assert_array_equal(ex.fetch("y"), expected)
    assert ex.fetch("C").shape == (2, 5, 3)


def test_without_growing_slots_whole_entries_are_read_and_nothing_grows() -> None:
    ex = in_table("cache.write x >> C[1]; cache.read C[1] >> y;")
    ex.step()
    assert ex.fetch("y").tolist() == [[1, 1], [1, 1]]


def test_positions_are_selected_in_every_entry() -> None:
    ex = in_table("cache.write x >> C[1]; cache.read C[, 0, 1..] >> y;", "f32[1, 1]")
    ex.step()
    assert ex.fetch("y").tolist() == [[-1], [1]]


@pytest.mark.rule("runtime.caches.12")
def test_reset_of_an_entry_keeps_the_counts_and_of_all_does_not() -> None:
    ex = in_table("cache.write x >> C[0]; cache.write x >> C[1]; cache.read C[0, m, n] >> y; cache.reset C[1];")
    ex.step(m=1)
    assert ex.fetch("C").shape == (1, 3, 2)
    ex.reset()
    assert ex.fetch("C").shape == (0, 2, 2)


def test_far_entries_grow_too() -> None:
    ex = in_table("cache.write x >> C[0]; cache.write x >> C[l]; cache.read C[l, m, n] >> y;")
    ex.step(l=10**9, m=2)
    assert ex.fetch("y").tolist() == [[1, 1], [1, 1], [-1, -1], [-1, -1]]
    assert ex.fetch("C[1000000000]").shape == ex.fetch("C[0]").shape == (4, 2)


def test_fetching_a_growing_matrix_grows_nothing() -> None:
    ex = executor(matrix("cache.read A[m, n] >> y;"))
    ex.step(m=2, n=1)
    assert ex.fetch("A[1, 1]").shape == ex.fetch("A[]").shape == (4, 3)
    assert ex.fetch("A[3, ]").shape == (3,)
    with pytest.raises(oi.CacheIndexError, match="fetching grows nothing"):
        ex.fetch("A[9, 9]")


@pytest.mark.rule("runtime.caches.18")
def test_what_was_read_does_not_change_when_the_matrix_does() -> None:
    ex = executor(
        matrix(
            "cache.read A >> y; cache.write z >> A; cache.read A >> w;",
            "y: f32[2, 2]; z: f32[2, 2] @init(3.0); w: f32[2, 2];",
        )
    )
    ex.step()
    assert ex.fetch("y").tolist() == [[0, 0], [0, 0]]
    assert ex.fetch("w").tolist() == [[3, 3], [3, 3]]
