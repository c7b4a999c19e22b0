"""Persistent tables: one test for each rule of sections 9.4, 9.5 and 10 of the language, and 7 of the runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.simulate import Executor, Simulator


def executor(text: str, **model: Any) -> Executor:
    return Simulator(oi.Model.from_arrays(**model), graph(text)).make_executor()


def table(declaration: str, reads: str, target: str = "") -> Executor:
    """Return a program that stores ``x`` at ``(i, j)`` when ``put`` is set, and else does ``reads``."""
    return executor(
        f"dynamic {{ x: f32[2]; i: i32 @init(0); j: i32 @init(0); put: bool @init(false); }} {target}"
        f" persistent {{ {declaration} }}"
        f" block entry {{ branch put store look; return; }} block look {{ {reads} return; }}"
        f" block store {{ cache.write x >> K[{'i, j' if 'j)' in declaration else 'i'}]; return; }}"
    )


def fill(ex: Executor, count: int) -> None:
    for i in range(count):
        ex.step(x=[i, 10 * i], i=i, put=True)


@pytest.mark.rule("runtime.caches.1")
def test_an_entry_is_read_where_it_was_written() -> None:
    ex = table("K(i): f32[2] @table;", "cache.read K[i] >> y;", "volatile { y: f32[2]; }")
    fill(ex, 3)
    ex.step(i=1)
    assert ex.fetch("y").tolist() == [1.0, 10.0]


@pytest.mark.rule("runtime.caches.2", "runtime.links.8")
def test_an_absent_entry_is_made_with_the_initial_value_by_reading_it() -> None:
    ex = table("K(i): f32[2] @table @init(7.0);", "cache.read K[i] >> y;", "volatile { y: f32[2]; }")
    ex.step(i=3)
    assert ex.fetch("y").tolist() == [7.0, 7.0]
    assert ex.fetch("K").tolist() == [[7.0, 7.0]] * 4


@pytest.mark.rule("language.accesses.1", "language.accesses.2", "runtime.caches.4")
@pytest.mark.parametrize(
    ("access", "rows"),
    [
        ("K[0..5]", range(5)),
        ("K[2..5]", range(2, 5)),
        ("K[..3]", range(3)),
        ("K[7..]", range(7, 10)),
        ("K[0..-3]", range(7)),
        ("K[0..i]", range(4)),
        ("K[..]", range(10)),
        ("K[]", range(10)),
        ("K[4..4]", range(0)),
        ("K[i-1..i+1]", range(3, 5)),
        ("K[0..0-i]", range(6)),
    ],
)
def test_ranges_are_half_open_and_negative_ends_count_from_the_size(access: str, rows: range) -> None:
    ex = table("K(i): f32[2] @table;", f"cache.read {access} >> y;", f"volatile {{ y: f32[{len(rows)}, 2]; }}")
    fill(ex, 10)
    ex.step(i=4)
    assert ex.fetch("y").tolist() == [[i, 10 * i] for i in rows]
    assert ex.fetch("y").shape == (len(rows), 2)


@pytest.mark.rule("runtime.caches.3")
def test_ranges_past_the_size_read_the_initial_value_and_grow_nothing() -> None:
    ex = table("K(i): f32[2] @table @init(5.0);", "cache.read K[0..4] >> y;", "volatile { y: f32[4, 2]; }")
    ex.step(x=[1, 2], put=True)
    ex.step()
    assert ex.fetch("y").tolist() == [[1, 2], [5, 5], [5, 5], [5, 5]]
    assert ex.fetch("K").shape == (1, 2)


@pytest.mark.rule("language.accesses.3", "runtime.caches.4")
def test_a_single_index_drops_its_dimension_and_a_range_keeps_it() -> None:
    text = """
    dynamic { x: f32[3]; } volatile {{ a: f32[3]; b: f32[2, 3, 3]; c: f32[1, 3]; d: f32[1, 1, 3]; e: f32[2, 3]; }}
    persistent { B(i, j): f32[3] @table; }
    block entry { cache.write x >> B[2, 5];
      cache.read B[2, 5] >> a; cache.read B[1..3, 4..7] >> b; cache.read B[2] >> c; cache.read B[] >> d;
      cache.read B[1..3, 5] >> e; return; }
    """.replace("{{", "{").replace("}}", "}")
    ex = executor(text)
    ex.step(x=[1, 2, 3])
    shapes = {name: ex.fetch(name).shape for name in "abcde"}
    assert shapes == {"a": (3,), "b": (2, 3, 3), "c": (6, 3), "d": (3, 6, 3), "e": (2, 3)}
    expected = np.zeros((3, 6, 3), np.float32)
    expected[2, 5] = [1, 2, 3]
    np.testing.assert_array_equal(ex.fetch("d"), expected)
    np.testing.assert_array_equal(ex.fetch("c"), expected[2])
    np.testing.assert_array_equal(ex.fetch("b")[1, 1], [1, 2, 3])
    np.testing.assert_array_equal(ex.fetch("e"), [[0, 0, 0], [1, 2, 3]])


@pytest.mark.rule("runtime.caches.1")
def test_a_fixed_index_has_its_size_from_the_start() -> None:
    ex = table(
        "K(i, j): f32[2] @table @fixed(i=3, j=2);", "cache.read K[] >> y;", "volatile { y: f32[3, 2, 2] @init(9.0); }"
    )
    ex.step(x=[1, 2], i=2, j=1, put=True)
    ex.step()
    expected = np.zeros((3, 2, 2))
    expected[2, 1] = [1, 2]
    np.testing.assert_array_equal(ex.fetch("y"), expected)


@pytest.mark.rule("language.accesses.4", "language.prefixes.3", "runtime.caches.5", "runtime.errors.7")
@pytest.mark.parametrize(
    ("declaration", "access", "i", "error", "said"),
    [
        ("K(i): f32[2] @table @fixed(i=3);", "K[i]", 3, oi.CacheLimitError, "0..2"),
        ("K(i): f32[2] @table @fixed(i=3);", "K[i]", -1, oi.CacheIndexError, "-1"),
        ("K(i): f32[2] @table;", "K[i]", -1, oi.CacheIndexError, "-1"),
    ],
)
def test_single_indices_have_limits(declaration: str, access: str, i: int, error: type, said: str) -> None:
    ex = table(declaration, f"cache.read {access} >> y;", "volatile { y: f32[2]; }")
    with pytest.raises(error, match=said) as caught:
        ex.step(i=i)
    assert caught.value.code == ("cache-limit" if error is oi.CacheLimitError else "cache-index")
    assert caught.value.node_desc == "cache.read K[i] >> y"


@pytest.mark.rule("runtime.caches.5", "runtime.caches.9")
@pytest.mark.parametrize(
    ("declaration", "access", "i", "error", "said"),
    [
        ("K(i): f32[2] @table @fixed(i=3);", "K[0..i]", 4, oi.CacheLimitError, "ends at 4"),
        ("K(i): f32[2] @table;", "K[i..3]", -1, oi.CacheIndexError, "starts at -1"),
        ("K(i): f32[2] @table;", "K[i..1]", 2, oi.CacheIndexError, "before its start 2"),
        ("K(i): f32[2] @table;", "K[0..i]", -3, oi.CacheIndexError, "the size is 2"),
        ("K(i): f32[2] @table;", "K[i..]", 3, oi.CacheIndexError, "ends at 2, before its start 3"),
    ],
)
def test_ranges_have_limits(declaration: str, access: str, i: int, error: type, said: str) -> None:
    ex = executor(
        "dynamic { x: f32[2] @init(1.0); i: i32; } volatile { y: f32[1, 2]; }"
        f" persistent {{ {declaration} }} block entry {{ cache.write x >> K[1]; cache.read {access} >> y; return; }}"
    )
    with pytest.raises(error, match=said):
        ex.step(i=i)


@pytest.mark.rule("runtime.caches.14")
def test_a_failed_access_changes_nothing() -> None:
    ex = table("K(i, j): f32[2] @table @fixed(j=2);", "")
    ex.step(x=[1, 2], put=True)
    with pytest.raises(oi.CacheLimitError):
        ex.step(x=[3, 4], i=5, j=2, put=True)
    assert ex.fetch("K").tolist() == [[[1, 2], [0, 0]]]
    ex.step(x=[3, 4], i=1, put=True)
    assert ex.fetch("K").shape == (2, 2, 2)


RESET = """
dynamic { x: f32[1] @init(1.0); } volatile { y: f32[1]; }
persistent { K(i, j): f32[1] @table; }
block entry {
  loop a (i in 0..3) { loop b (j in 0..4) { cache.write x >> K[i, j]; } }
  cache.reset K RESET;
  return;
}
"""


@pytest.mark.rule("runtime.caches.11")
@pytest.mark.parametrize(
    ("indices", "shape", "left"),
    [("", (0, 0, 1), 0), ("[]", (0, 0, 1), 0), ("[1]", (3, 4, 1), 8), ("[2]", (2, 4, 1), 8), ("[2, 3]", (3, 4, 1), 11)],
)
def test_reset_takes_entries_away_and_shrinks_to_the_largest_index_left(indices: str, shape: Any, left: int) -> None:
    ex = executor(RESET.replace(" RESET", indices))
    ex.step()
    assert ex.fetch("K").shape == shape
    assert ex.fetch("K").sum() == left


@pytest.mark.rule("runtime.caches.11")
def test_reset_of_the_last_entry_shrinks_the_table() -> None:
    ex = table("K(i): f32[2] @table;", "cache.reset K[i];")
    for i in (1, 5):
        ex.step(x=[1, 1], i=i, put=True)
    ex.step(i=5)
    assert ex.fetch("K").tolist() == [[0, 0], [1, 1]]


@pytest.mark.rule("runtime.caches.18")
def test_what_was_read_does_not_change_when_the_table_does() -> None:
    ex = executor("""
        dynamic { x: f32[2]; z: f32[2]; } volatile { before: f32[1, 2]; after: f32[1, 2]; }
        persistent { K(i): f32[2] @table; }
        block entry {
          cache.write x >> K[0]; cache.read K[] >> before;
          cache.write z >> K[0]; cache.read K[] >> after;
          cache.reset K; return; }
    """)
    ex.step(x=[1, 2], z=[3, 4])
    assert ex.fetch("before").tolist() == [[1, 2]]
    assert ex.fetch("after").tolist() == [[3, 4]]


def test_writing_to_what_was_read_does_not_change_the_table() -> None:
    ex = executor("""
        dynamic { x: f32[2]; } volatile { y: f32[1, 2]; }
        persistent { K(i): f32[2] @table; }
        block entry { cache.write x >> K[0]; cache.read K[] >> y; op add(y, y) >> y; return; }
    """)
    ex.step(x=[1, 2])
    assert ex.fetch("y").tolist() == [[2, 4]]
    assert ex.fetch("K").tolist() == [[1, 2]]


@pytest.mark.rule("language.cache.1")
def test_a_read_target_keeps_its_shape_for_the_rest_of_the_step_only() -> None:
    ex = executor("""
        dynamic { x: f32[2]; t: i32; } volatile { y: f32[1, 2] @init(-1.0); n: f32[1]; }
        persistent { K(i): f32[2] @table; }
        block entry { op sum_axis(y, axes=[1]) >> n; cache.write x >> K[t]; cache.read K[] >> y; return; }
    """)
    for t in range(4):
        ex.step(x=[t, t], t=t)
        assert ex.fetch("y").tolist() == [[i, i] for i in range(t + 1)]
        assert ex.fetch("n").tolist() == [-2.0]


ATTENTION = """
dynamic { q: f32[1, 2]; k: f32[2]; }
volatile { keys: f32[1, 2]; total: f32[1]; }
persistent { step: i64; K(l, t): f32[2] @table @fixed(l=2); }
block entry {
  assign n: i64;
  cache.read step >> n;
  loop layers (l in 0..2) {
    cache.write k >> K[l, n];
    cache.read K[l, 0..n+1] >> keys;
    op transpose(keys, perm=[1, 0]) >> keys;
    op matmul(q, keys) >> keys;
    op sum_axis(keys, axes=[1]) >> total;
  }
  cache.increment step;
  return;
}
"""


@pytest.mark.rule("runtime.operators.5")
def test_operators_take_the_shape_of_the_moment_and_hand_it_on() -> None:
    ex = executor(ATTENTION)
    keys: list[np.ndarray] = []
    rng = np.random.default_rng(5)
    for _ in range(9):
        q, k = rng.normal(size=(1, 2)).astype(np.float32), rng.normal(size=2).astype(np.float32)
        keys.append(k)
        ex.step(q=q, k=k)
        expected = q @ np.array(keys).T
        np.testing.assert_allclose(ex.fetch("keys"), expected, rtol=1e-6)
        np.testing.assert_allclose(ex.fetch("total"), expected.sum(axis=1), rtol=1e-5, atol=1e-6)


@pytest.mark.rule("runtime.operators.5")
def test_an_operator_with_a_fixed_output_refuses_another_shape() -> None:
    ex = executor("""
        dynamic { x: f32[2]; } volatile { y: f32[1, 2]; z: f32[1, 2]; }
        persistent { K(i): f32[2] @table; s: i32; }
        block entry { assign n: i32; cache.read s >> n; cache.write x >> K[n]; cache.read K[] >> y;
          op add(y, y) >> z; cache.increment s; return; }
    """)
    ex.step(x=[1, 2])
    with pytest.raises(oi.ShapeError, match=r"f32\[2,2\], `z` is declared f32\[1,2\]"):
        ex.step(x=[1, 2])


def test_a_transfer_needs_equal_shapes_at_run_time() -> None:
    ex = executor("""
        dynamic { x: f32[2]; } volatile { y: f32[1, 2]; z: f32[1, 2]; }
        persistent { K(i): f32[2] @table; s: i32; }
        block entry { assign n: i32; cache.read s >> n; cache.write x >> K[n]; cache.read K[] >> y;
          transfer y >> z; cache.increment s; return; }
    """)
    ex.step(x=[1, 2])
    assert ex.fetch("z").tolist() == [[1, 2]]
    with pytest.raises(oi.ShapeError):
        ex.step(x=[1, 2])


def test_what_was_read_can_be_written_back_in_another_shape_only_if_it_fits() -> None:
    ex = executor("""
        volatile { y: f32[1, 2]; one: f32[2] @init(1.0); }
        persistent { K(i): f32[2] @table; L(i): f32[2, 2] @table; s: i32; }
        block entry { assign n: i32; cache.read s >> n; cache.write one >> K[n]; cache.read K[] >> y;
          cache.write y >> L[0]; cache.increment s; return; }
    """)
    with pytest.raises(oi.ShapeError, match=r"an entry of `L` is f32\[2,2\] here, the value is f32\[1,2\]"):
        ex.step()
    assert ex.fetch("L").shape == (0, 2, 2)


@pytest.mark.rule("runtime.caches.13")
def test_packed_entries_are_read_written_and_sliced() -> None:
    ex = executor("""
        dynamic { x: i4[3]; t: i32; } volatile { one: i4[3]; all: i4[1, 3]; }
        persistent { K(i): i4[3] @table @init(-1); }
        block entry { cache.write x >> K[t]; cache.read K[t] >> one; cache.read K[] >> all; return; }
    """)
    ex.step(x=[1, -8, 7], t=1)
    assert ex.fetch("one").tolist() == [1, -8, 7]
    assert ex.fetch("all").tolist() == [[-1, -1, -1], [1, -8, 7]]
    assert ex.fetch("K[1]").tolist() == [1, -8, 7]


@pytest.mark.rule("runtime.caches.13")
@pytest.mark.parametrize("dtype", ["f8", "bf16", "f16", "f64", "i8", "u64", "bool", "bitset", "t2", "u1"])
def test_entries_of_every_type_come_back(dtype: str) -> None:
    ex = executor(f"""
        dynamic {{ x: {dtype}[5]; }} volatile {{ y: {dtype}[5]; z: {dtype}[1, 5]; }}
        persistent {{ K(i): {dtype}[5] @table; }}
        block entry {{ cache.write x >> K[0]; cache.read K[0] >> y; cache.read K[..] >> z; return; }}
    """)
    ones = [True, False, True, True, False] if dtype == "bool" else [1, 0, 1, 1, 0]
    ex.step(x=ones)
    assert ex.fetch("y").astype(float).tolist() == ex.fetch("z")[0].astype(float).tolist() == [1, 0, 1, 1, 0]


def test_tables_of_scalars() -> None:
    ex = executor("""
        dynamic { x: f64; t: i32; } volatile { y: f64; z: f64[1]; } persistent { K(i): f64 @table; }
        block entry { cache.write x >> K[t]; cache.read K[t] >> y; cache.read K[] >> z; return; }
    """)
    ex.step(x=1.5, t=0)
    ex.step(x=2.5, t=1)
    assert ex.fetch("y") == 2.5
    assert ex.fetch("z").tolist() == [1.5, 2.5]
    assert ex.fetch("K[1]") == 2.5


@pytest.mark.rule("runtime.host.6")
def test_the_host_fetches_entries_and_ranges_and_creates_none() -> None:
    ex = executor(RESET.replace("cache.reset K RESET;", ""))
    ex.step()
    assert ex.fetch("K[0, 2]").tolist() == [1.0]
    assert ex.fetch("K[]").shape == ex.fetch("K").shape == (3, 4, 1)
    assert ex.fetch("K[1, ..2]").shape == (2, 1)
    assert ex.fetch("K[, 2]").shape == (3, 1)
    assert ex.fetch("K[7, 7]").tolist() == [0.0]
    assert ex.fetch("K").shape == (3, 4, 1)
    with pytest.raises(oi.ExecutionError, match="up to 2 integers") as caught:
        ex.fetch("K[1, 2, 3]")
    assert caught.value.code == "index-count"
    with pytest.raises(oi.CacheIndexError):
        ex.fetch("K[0..-9]")


@pytest.mark.rule("runtime.memory.9")
def test_what_the_host_fetched_stays_as_it_was() -> None:
    ex = table("K(i): f32[2] @table;", "")
    ex.step(x=[1, 2], put=True)
    fetched = ex.fetch("K")
    ex.step(x=[3, 4], put=True)
    assert fetched.tolist() == [[1, 2]]


@pytest.mark.rule("runtime.host.3")
def test_executors_and_resets_have_tables_of_their_own() -> None:
    simulator = Simulator(oi.Model.from_arrays({}), graph(RESET.replace("cache.reset K RESET;", "")))
    first, second = simulator.make_executor(), simulator.make_executor()
    first.step()
    assert second.fetch("K").shape == (0, 0, 1)
    first.reset()
    assert first.fetch("K").shape == (0, 0, 1)


def test_indices_far_apart_take_no_memory_between_them() -> None:
    ex = executor("""
        dynamic { x: f32[1024]; i: i64; } volatile { y: f32[1024]; r: f32[3, 1024]; }
        persistent { K(i): f32[1024] @table @init(0.5); }
        block entry { cache.write x >> K[i]; cache.read K[i] >> y;
          cache.read K[999999999999..1000000000002] >> r; return; }
    """)
    ex.step(x=np.full(1024, 2, np.float32), i=3)
    ex.step(x=np.full(1024, 3, np.float32), i=10**12)
    assert ex.fetch("y").tolist() == [3.0] * 1024
    assert ex.fetch("r")[:, 0].tolist() == [0.5, 3.0, 0.5]
    assert ex.fetch("K[3]")[0] == 2.0


@pytest.mark.rule("language.cache.1", "runtime.checks.8")
@pytest.mark.parametrize(
    ("access", "target"),
    [("K[0..5]", "f32[4, 2]"), ("K[0..2, 1]", "f32[2]"), ("F[]", "f32[2, 2]"), ("F[0..-1]", "f32[3, 2]")],
)
def test_the_shape_of_a_read_is_checked_before_running_where_it_is_known(access: str, target: str) -> None:
    text = (
        f"volatile {{ y: {target}; }} persistent {{ K(i, j): f32[2] @table; F(i): f32[2] @table @fixed(i=3); }}"
        f" block entry {{ cache.read {access} >> y; return; }}"
    )
    with pytest.raises(oi.ValidationError) as caught:
        executor(text)
    assert caught.value.code == "shape-mismatch"


def test_sizes_of_the_model_make_shapes_known() -> None:
    ex = executor(
        "volatile { y: f32[N, 2]; } persistent { K(i): f32[2] @table; } block entry { cache.read K[0..N] >> y; }",
        sizevars={"N": 3},
    )
    ex.step()
    assert ex.fetch("y").shape == (3, 2)


def test_names_in_brackets_are_checked_before_running() -> None:
    text = (
        "volatile { y: f32[2]; v: f32[2]; } persistent { K(i): f32[2] @table; }"
        " block entry { cache.read K[nowhere] >> y; cache.write y >> K[v]; cache.reset K[nowhere]; return; }"
    )
    with pytest.raises(oi.ValidationError) as caught:
        executor(text)
    assert [d.code for d in caught.value.diagnostics] == ["unknown-variable", "bound-not-scalar", "unknown-variable"]


def test_a_dynamic_index_without_a_value_is_reported() -> None:
    ex = executor(
        "dynamic { i: i32; } volatile { y: f32[2]; } persistent { K(i): f32[2] @table; }"
        " block entry { cache.read K[i] >> y; return; }".replace("K(i)", "K(n)")
    )
    with pytest.raises(oi.DynamicUnsetError, match="`i`"):
        ex.step()
