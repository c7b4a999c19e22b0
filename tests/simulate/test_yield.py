"""Handing variables to consumer blocks: one test for each rule of ``specification: runtime.consumers``."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.simulate import Executor, Simulator

VARIABLES = """
dynamic { x: f32[2]; go: bool @init(true); }
volatile { h: f32[2]; h2: f32[2]; out: f32[2]; out2: f32[2]; one: f32[2] @init(1.0); two: f32[2] @init(2.0); }
persistent { n: i32; p: f32[2]; K(i): f32[2] @table; }
"""


def executor(blocks: str, *, trace: bool = False, strict: bool = False) -> Executor:
    return Simulator(oi.Model.from_arrays({}), graph(VARIABLES + blocks), trace=trace, strict=strict).make_executor()


def values(ex: Executor, *names: str) -> list[list[float]]:
    return [ex.fetch(name).tolist() for name in names]


@pytest.mark.rule("runtime.consumers.4")
def test_a_consumer_changes_what_was_yielded_to_it_and_yields_it_back() -> None:
    ex = executor("""
        block entry { op add(x, one) >> h; yield h; await h; op add(h, one) >> out; return; }
        block consumer { await h; op mul(h, two) >> h; yield h; }
    """)
    for x in ([1, 2], [5, 6]):
        ex.step(x=x)
        assert values(ex, "h", "out") == [[2 * (v + 1) for v in x], [2 * (v + 1) + 1 for v in x]]


@pytest.mark.rule("runtime.consumers.5")
def test_without_a_consumer_await_changes_nothing() -> None:
    ex = executor("block entry { op add(x, one) >> h; yield h; await h; op add(h, one) >> out; return; }")
    ex.step(x=[1, 2])
    assert values(ex, "out") == [[3, 4]]


NAMES = ("a", "b", "c")


@pytest.mark.rule("runtime.consumers.1")
@pytest.mark.parametrize("order", sorted(permutations(NAMES)))
def test_readers_see_the_value_handed_over_whatever_the_writer_does(order: tuple[str, ...]) -> None:
    """The writer's block is called a, b or c in turn, so that it comes before, between and after the readers."""
    writer, first, second = order
    ex = executor(f"""
        block entry {{ op add(x, one) >> h; yield h; await h; op add(h, one) >> out; return; }}
        block {writer} {{ await h; op mul(h, two) >> h; op mul(h, two) >> h; yield h; }}
        block {first} {{ await h; op add(h, one) >> h2; yield h; }}
        block {second} {{ await h; op add(h, two) >> out2; yield h; }}
    """)
    ex.step(x=[1, 2])
    assert values(ex, "h", "h2", "out2", "out") == [[8, 12], [3, 4], [4, 5], [9, 13]]


@pytest.mark.rule("runtime.consumers.6")
def test_what_else_a_consumer_wrote_is_merged_too() -> None:
    ex = executor(
        """
        block entry { transfer x >> h; yield h; await h; op add(h2, one) >> out; cache.read n >> m; return; }
        block reader { await h; op add(h, two) >> h2; cache.increment n; cache.write h >> p; yield h; }
    """.replace("block entry {", "block entry { assign m: i32;")
    )
    ex.step(x=[1, 2])
    ex.step(x=[3, 4])
    assert values(ex, "h2", "out", "p") == [[5, 6], [6, 7], [3, 4]]
    assert ex.fetch("n") == 2


@pytest.mark.rule("runtime.consumers.3")
def test_a_consumer_of_several_starts_when_all_are_out() -> None:
    ex = executor("""
        block entry { transfer x >> h; yield h; op add(one, two) >> h2; yield h2; await h; await h2; return; }
        block both { await h; await h2; op add(h, h2) >> out; yield h, h2; }
    """)
    ex.step(x=[1, 2])
    assert values(ex, "out") == [[4, 5]]


@pytest.mark.rule("runtime.consumers.3")
def test_a_consumer_sees_other_variables_as_they_were_at_the_last_yield_it_needed() -> None:
    ex = executor("""
        block entry { transfer x >> h; transfer one >> h2; yield h; await h; transfer two >> h2; return; }
        block reader { await h; op add(h, h2) >> out; yield h; }
    """)
    ex.step(x=[1, 2])
    assert values(ex, "out", "h2") == [[2, 3], [2, 2]]


@pytest.mark.rule("runtime.consumers.3")
def test_a_consumer_runs_each_time_its_variables_go_out() -> None:
    ex = executor("""
        block entry { loop l (i in 0..3) { yield h; await h; op add(h, one) >> h; } return; }
        block consumer { await h; op mul(h, two) >> h; cache.increment n; yield h; }
    """)
    ex.step(x=[0, 0])
    assert values(ex, "h") == [[7, 7]]
    assert ex.fetch("n") == 3


@pytest.mark.rule("runtime.consumers.3", "runtime.consumers.8")
def test_a_consumer_does_not_start_again_until_all_of_its_variables_went_out_again() -> None:
    ex = executor("""
        block entry { yield h; yield h2; await h; yield h; await h; await h2; yield h, h2; await h, h2; return; }
        block both { await h, h2; cache.increment n; yield h, h2; }
    """)
    ex.step(x=[0, 0])
    assert ex.fetch("n") == 2


@pytest.mark.rule("runtime.consumers.5")
def test_entry_goes_on_with_other_work_meanwhile() -> None:
    ex = executor("""
        block entry { transfer x >> h; yield h; op add(one, two) >> out2; await h; op add(h, out2) >> out; return; }
        block consumer { await h; op mul(h, two) >> h; branch more; yield h; }
        block more { op add(h, one) >> h; return; }
    """)
    ex.step(x=[1, 2])
    assert values(ex, "out") == [[6, 8]]


def test_reads_of_another_shape_are_handed_over() -> None:
    ex = executor("""
        volatile { k: f32[1, 2]; total: f32[2]; }
        block entry { cache.write x >> K[0]; cache.write one >> K[1]; cache.read K[] >> k;
          yield k; cache.write two >> K[0]; await k; return; }
        block a { await k; op add(k, k) >> k; yield k; }
        block b { await k; op sum_axis(k, axes=[0]) >> total; yield k; }
    """)
    ex.step(x=[1, 2])
    assert values(ex, "k", "total") == [[[2, 4], [2, 2]], [2, 3]]


@pytest.mark.rule("runtime.consumers.9")
def test_an_error_in_a_consumer_surfaces_at_the_await_and_the_others_finish() -> None:
    ex = executor("""
        block entry { assign k: i32; cache.read n >> k; cache.increment n; yield h; await h; return; }
        block late { await h; cache.read K[0-1] >> out; yield h; }
        block early { await h; cache.read K[0-2] >> out2; yield h; }
        block other { await h; transfer one >> h2; yield h; }
    """)
    with pytest.raises(oi.CacheIndexError, match="-2") as caught:
        ex.step(x=[1, 2])
    assert caught.value.block == "early"
    assert values(ex, "h2") == [[1, 1]]
    assert ex.fetch("n") == 1


DEADLOCKS = {
    "await h;": "`h` is awaited, but it is not out",
    "yield h; yield h; await h;": "`h` is yielded again",
    "yield h;": "`h` is still out at the end of the step",
    "yield h; return;": "`h` is still out at the end of the step",
}


@pytest.mark.rule("runtime.consumers.10")
@pytest.mark.parametrize("statements", DEADLOCKS)
def test_what_can_never_meet_is_a_deadlock(statements: str) -> None:
    """In a loop, so that only the run can tell."""
    ex = executor(f"block entry {{ loop l (i in 0..1) {{ {statements} }} return; }}")
    with pytest.raises(oi.DeadlockError, match=DEADLOCKS[statements]) as caught:
        ex.step(x=[1, 2])
    assert caught.value.code == "deadlock"
    assert caught.value.block == "entry"
    assert caught.value.node_desc is not None
    ex.reset()


@pytest.mark.rule("runtime.consumers.2", "runtime.consumers.7")
@pytest.mark.parametrize(
    ("statements", "said"),
    [
        ("yield h; op add(h, one) >> out; await h;", "`h` is out"),
        ("yield h; transfer one >> h; await h;", "`h` is out"),
        ("yield h; branch use; await h;", "`h` is out"),
        ("yield h; transfer one >> h2; await h;", "`h2` is used while consumer `reader`"),
        ("yield h; transfer out >> out2; await h;", "`out` is used while consumer `reader`"),
        ("yield h; cache.increment n; await h;", "`n` is used while consumer `reader`"),
    ],
)
def test_what_entry_does_meanwhile_may_not_race(statements: str, said: str) -> None:
    blocks = f"""
        block entry {{ loop l (i in 0..1) {{ {statements} }} return; }}
        block use {{ transfer h >> out; return; }}
        block reader {{ await h; op add(h, h2) >> out; cache.increment n; yield h; }}
    """
    ex = executor(blocks)
    with pytest.raises(oi.RaceError, match=said) as caught:
        ex.step(x=[1, 2])
    assert caught.value.code == "race"
    assert caught.value.block in ("entry", "use")


@pytest.mark.rule("runtime.consumers.7")
def test_consumers_that_run_together_may_not_race() -> None:
    ex = executor("""
        block entry { loop l (i in 0..1) { yield h; yield h2; await h, h2; } return; }
        block a { await h; transfer h >> out; yield h; }
        block b { await h2; op add(h2, out) >> out2; yield h2; }
    """)
    with pytest.raises(oi.RaceError, match="consumers `a` and `b` run at the same time and race on `out`"):
        ex.step(x=[1, 2])


@pytest.mark.rule("runtime.checks.10", "runtime.consumers.7")
@pytest.mark.parametrize(
    ("entry", "others", "named"),
    [
        (
            "yield h; transfer one >> h2; await h;",
            "block a { await h; transfer h2 >> out; yield h; }",
            "`h2`",
        ),
        (
            "yield h; branch go w w; await h;",
            "block w { cache.increment n; return; } block a { await h; cache.reset n; yield h; }",
            "`n`",
        ),
        (
            "yield h; await h;",
            "block a { await h; transfer one >> out; yield h; } block b { await h; transfer two >> out; yield h; }",
            "`out`",
        ),
    ],
)
def test_races_on_the_straight_line_are_found_before_running(entry: str, others: str, named: str) -> None:
    with pytest.raises(oi.ValidationError) as caught:
        executor(f"block entry {{ {entry} return; }} {others}")
    assert caught.value.code == "race"
    assert named in caught.value.diagnostics[0].message


def test_writing_what_only_the_consumer_of_an_earlier_yield_used_is_not_a_race() -> None:
    ex = executor("""
        block entry { transfer x >> h; yield h; await h; transfer two >> out; yield h2; await h2; return; }
        block a { await h; transfer h >> out; yield h; }
        block b { await h2; op add(h2, out) >> out2; yield h2; }
    """)
    ex.step(x=[1, 2])
    assert values(ex, "out2") == [[2, 2]]


@pytest.mark.rule("runtime.consumers.10")
@pytest.mark.parametrize(
    "entry", ["yield h; await h; yield h2; await h2;", "transfer one >> h;", "loop l (i in 0..2) { yield h; await h; }"]
)
def test_a_consumer_that_can_never_start_is_warned_of(entry: str) -> None:
    text = VARIABLES + f"block entry {{ {entry} return; }} block both {{ await h, h2; yield h, h2; }}"
    warnings = Simulator(oi.Model.from_arrays({})).validate(graph(text))
    assert [w.code for w in warnings] == ["dead-consumer"]
    assert "`both` never starts: entry never has `h`, `h2` out together" in warnings[0].message


@pytest.mark.rule("runtime.consumers.12")
def test_events_of_consumers_come_at_the_await_that_joins_them_by_name(capsys: Any) -> None:
    ex = executor(
        """
        block entry { transfer x >> h; yield h; op add(one, two) >> out; await h; return; }
        block z { await h; transfer h >> h2; yield h; }
        block a { await h; branch inner; yield h; }
        block inner { transfer h >> out2; return; }
        """,
        trace=True,
    )
    ex.step(x=[1, 2])
    assert [(e.track, e.block_name, e.node_desc) for e in ex.trace()] == [
        ("entry", "entry", "transfer x >> h"),
        ("entry", "entry", "yield h"),
        ("entry", "entry", "op add(one,two) >> out"),
        ("a", "a", "await h"),
        ("a", "a", "branch inner"),
        ("a", "inner", "transfer h >> out2"),
        ("a", "inner", "return"),
        ("a", "a", "yield h"),
        ("z", "z", "await h"),
        ("z", "z", "transfer h >> h2"),
        ("z", "z", "yield h"),
        ("entry", "entry", "await h"),
        ("entry", "entry", "return"),
    ]
    yields = [e for e in ex.trace() if e.kind in ("Yield", "Await")]
    assert {(e.params, e.output) for e in yields} == {(("h",), ())}
    assert len(capsys.readouterr().out.splitlines()) == 13


@pytest.mark.rule("runtime.host.9")
def test_an_iteration_shows_the_nodes_of_entry_only() -> None:
    ex = executor("""
        block entry { transfer x >> h; yield h; await h; return; } block a { await h; op mul(h, two) >> h; yield h; }
    """)
    ex.insert(x=[1, 2])
    assert [run.event.kind for run in ex.iterate()] == ["Transfer", "Yield", "Await", "Return"]
    assert values(ex, "h") == [[2, 4]]


def test_an_aborted_step_leaves_nothing_out() -> None:
    ex = executor("""
        block entry { transfer x >> h; yield h; await h; return; } block a { await h; op mul(h, two) >> h; yield h; }
    """)
    ex.insert(x=[1, 2])
    run = ex.iterate()
    next(run), next(run)
    run.close()
    ex.step(x=[3, 4])
    assert values(ex, "h") == [[6, 8]]


def test_a_yield_outside_of_entry_and_consumers_is_a_return() -> None:
    ex = executor("block entry { branch part; return; } block part { transfer x >> out; yield out; }")
    ex.step(x=[1, 2])
    assert values(ex, "out") == [[1, 2]]
