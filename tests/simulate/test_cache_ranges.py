"""Writes of ranges of a cache, and amounts that counters change by: against NumPy, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import openinfer as oi

MODEL = oi.Model.from_arrays({}, sizevars={"T": 3, "D": 2})
DECLARED = """
dynamic { rows: f32[T, D]; square: f32[2, T, D]; n: i32 @init(0); }
persistent { K(l, t): f32[D] @table; F(t): f32[D] @table @fixed(t=5); P(t): u4[D] @table; step: i64; }
"""
ROWS = np.arange(6, dtype=np.float32).reshape(3, 2) + 1


def executor(statements: str) -> oi.Executor:
    return oi.Simulator(MODEL, f"{DECLARED} block entry {{ {statements} return; }}").make_executor()


@pytest.mark.rule("language.cache.2", "runtime.caches.17")
def test_a_range_is_stored_by_one_statement() -> None:
    run = executor("cache.write rows >> K[0, n..n+T];")
    run.step(rows=ROWS)
    run.step(rows=-ROWS, n=4)
    wanted = np.zeros((7, 2), np.float32)
    wanted[:3], wanted[4:] = ROWS, -ROWS
    np.testing.assert_array_equal(run.fetch("K[0]"), wanted)


@pytest.mark.rule("language.cache.2")
def test_ranges_of_several_indices_come_in_slot_order() -> None:
    run = executor("cache.write square >> K[1..3, 0..T];")
    square = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    run.step(square=square)
    np.testing.assert_array_equal(run.fetch("K[1..3, 0..3]"), square)
    assert not run.fetch("K[0]").any()


@pytest.mark.rule("language.cache.3")
def test_an_open_end_is_the_current_size_and_a_negative_one_counts_from_it() -> None:
    run = executor("cache.write rows >> F[2..]; cache.write rows >> F[..-2];")
    run.step(rows=ROWS)
    np.testing.assert_array_equal(run.fetch("F[]"), np.concatenate([ROWS, ROWS[1:]]))


def test_a_read_before_the_write_keeps_what_it_read() -> None:
    run = executor("cache.write rows >> K[0, 0..3]; cache.read K[0, 0..3] >> old; cache.write old >> K[0, 1..4];")
    run.step(rows=ROWS)
    np.testing.assert_array_equal(run.fetch("K[0]"), np.concatenate([ROWS[:1], ROWS]))


@given(st.lists(st.integers(0, 40), min_size=1, max_size=4))
def test_any_ranges_agree_with_single_writes(places: list[int]) -> None:
    writes = (f"op select(rows, axis=0, index={i}) >> r{i}; cache.write r{i} >> K[n, n+{i}];" for i in range(3))
    ranged, single = executor("cache.write rows >> K[n, n..n+T];"), executor(" ".join(writes))
    for step, place in enumerate(places):
        for run in (ranged, single):
            run.step(rows=ROWS + step, n=place)
    np.testing.assert_array_equal(ranged.fetch("K[]"), single.fetch("K[]"))


REFUSED = {
    "F[3..6]": ("cache-limit", "ends at 6"),
    "K[0, 0..n]": ("shape-mismatch", "these entries of `K` are f32[2,2] here, the value is f32[3,2]"),
    "K[0, n..0]": ("cache-index", "before its start"),
}


@pytest.mark.rule("runtime.caches.17")
@pytest.mark.parametrize(("access", "expected"), REFUSED.items())
def test_a_refused_write_stores_nothing(access: str, expected: tuple[str, str]) -> None:
    run = executor(f"cache.write rows >> {access};")
    with pytest.raises(oi.ExecutionError) as caught:
        run.step(rows=ROWS, n=2)
    assert (caught.value.code, expected[1] in str(caught.value)) == (expected[0], True), str(caught.value)
    assert not run.fetch("F[]").any()
    assert run.fetch("K[]").size == 0


@pytest.mark.parametrize("access", ["K[0]", "K[0, 0..2]", "F[]", "K[0, 0]", "K[0..2, 0..3]"])
def test_shapes_that_are_known_are_checked_before_the_program_runs(access: str) -> None:
    with pytest.raises(oi.ValidationError):
        executor(f"cache.write rows >> {access};")


@pytest.mark.rule("language.cache.4")
def test_counters_change_by_values_of_the_running_program() -> None:
    run = executor("cache.increment n step; cache.increment (2*n + T) step; cache.decrement D step;")
    for n in (0, 5, 5, 7):
        run.step(n=n)
    assert run.fetch("step") == sum(3 * n + 3 - 2 for n in (0, 5, 5, 7))


@pytest.mark.rule("language.cache.4")
def test_a_negative_amount_is_an_error_and_counts_nothing() -> None:
    run = executor("cache.increment (n - 3) step;")
    with pytest.raises(oi.ExecutionError, match="the amount `n-3` is -1") as caught:
        run.step(n=2)
    assert (caught.value.code, run.fetch("step")) == ("integer-range", 0)
    with pytest.raises(oi.ValidationError, match="amount `D-T` is -1"):
        executor("cache.increment (D - T) step;")


@pytest.mark.parametrize(
    "statement", ["cache.increment n step;", "cache.decrement (2*n) step;", "cache.write rows >> K[0, 0..n];"]
)
def test_json_of_version_3_has_them(statement: str) -> None:
    graph = oi.graph(f"{DECLARED} block entry {{ {statement} return; }}")
    document = graph.to_json()
    assert document["schema_version"] == 3
    assert oi.Graph.from_json(document) == graph == oi.graph(graph.to_dsl())
