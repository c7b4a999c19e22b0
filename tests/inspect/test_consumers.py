"""Stepping into consumer blocks: where a step stops, what is seen there, and that nothing else changes."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

import openinfer as oi
from openinfer.inspect import (
    BlockBreakpoint,
    Breakpoint,
    ConditionBreakpoint,
    Inspector,
    NonFiniteBreakpoint,
    OperatorBreakpoint,
    Stop,
    WriteBreakpoint,
    memory_over_time,
)
from openinfer.simulate import Executor, logs

PROGRAM = """dynamic { x: f32[2]; }
volatile { y: f32[2]; seen: f32[2]; z: f32[2]; }
persistent { turns: i32; }
block entry {
  transfer x >> y;
  yield y;
  op neg(x) >> z;
  await y;
  op add(y, seen) >> z;
  return z;
}
block reader { await y; op relu(y) >> seen; yield y; }
block writer {
  await y;
  loop twice (i in 0..2) { op add(y, y) >> y; }
  branch counted;
  yield y;
}
block counted { cache.increment turns; }
"""
READER = ["await y", "op relu(y) >> seen", "yield y"]
TWICE = ["loop twice (i in 0..2)", "op add(y,y) >> y", "op add(y,y) >> y"]
WRITER = ["await y", *TWICE, "branch counted", "cache.increment turns", "yield y"]
X = np.array([1, 2], np.float32)

FAILING = """volatile { a: i32; b: i32; c: i32; one: i32 @init(1); }
persistent { ends: i32; T(i): i32 @table @fixed(i=1); }
block entry { yield a, b; await a, b; op add(a, b) >> c; return c; }
block bad { await a; op sub(a, one) >> a; cache.read T[a] >> a; yield a; }
block good { await b; cache.increment ends; yield b; }
"""


def executor_of(text: str = PROGRAM, *, trace: bool = False) -> Executor:
    return oi.Simulator(oi.Model.from_arrays({}), trace=trace, echo=False).make_executor(oi.graph(text))


def begun(*breakpoints: Breakpoint, watches: tuple[str, ...] = (), trace: bool = False) -> Inspector:
    found = Inspector(executor_of(trace=trace), breakpoints, watches)
    found.begin(x=X)
    return found


def described(stop: Stop) -> tuple[str, str]:
    assert stop.event is not None
    return stop.event.track, stop.event.node_desc


def stepped(inspector: Inspector) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    while inspector.is_running:
        found.append(described(inspector.step()))
    return found


def test_consumers_run_by_name_after_the_yield_that_starts_them() -> None:
    assert stepped(begun()) == [
        *(("entry", text) for text in ("transfer x >> y", "yield y")),
        *(("reader", text) for text in READER),
        *(("writer", text) for text in WRITER),
        *(("entry", text) for text in ("op neg(x) >> z", "await y", "op add(y,seen) >> z", "return z")),
    ]


@pytest.mark.rule("runtime.host.9")
def test_stepping_leaves_results_and_the_trace_as_they_are() -> None:
    found = begun(trace=True)
    stepped(found)
    whole = executor_of(trace=True)
    whole.step(x=X)
    assert found.executor.fetch("z").tolist() == whole.fetch("z").tolist() == [5.0, 10.0]
    assert found.executor.fetch("turns") == whole.fetch("turns") == 1
    events = [[(event.track, event.node_desc) for event in each.trace()] for each in (found.executor, whole)]
    assert events[0] == events[1]
    assert events[0].index(("reader", "await y")) > events[0].index(("entry", "op neg(x) >> z"))


def test_a_consumer_shows_the_values_that_it_sees() -> None:
    found = begun(ConditionBreakpoint("y[0] > 3"))
    stop = found.resume()
    assert described(stop) == ("writer", "op add(y,y) >> y")
    assert found.executor.fetch("y").tolist() == [4.0, 8.0]
    assert found.executor.fetch("seen").tolist() == [1.0, 2.0]
    found.finish()  # back in entry, where the copy of the writer is not merged yet
    assert found.executor.fetch("y").tolist() == [1.0, 2.0]
    found.step(2)
    assert found.executor.fetch("y").tolist() == [4.0, 8.0]


@pytest.mark.parametrize(
    ("breakpoint_", "track", "upcoming"),
    [
        (OperatorBreakpoint("relu"), "reader", "op relu(y) >> seen"),
        (BlockBreakpoint("writer"), "reader", "await y"),
        (BlockBreakpoint("counted"), "writer", "cache.increment turns"),
        (WriteBreakpoint("turns"), "writer", "yield y"),
    ],
)
def test_breakpoints_hold_in_consumers(breakpoint_: Breakpoint, track: str, upcoming: str) -> None:
    stop = begun(breakpoint_).resume()
    assert (described(stop)[0], stop.next and stop.next.desc) == (track, upcoming)
    assert [str(hit) for hit in stop.hits] == [str(breakpoint_)]


def test_infinities_are_found_where_a_consumer_makes_them() -> None:
    text = """volatile { y: f32; } block entry { yield y; await y; return y; }
    block other { await y; op log(y) >> y; op neg(y) >> y; yield y; }"""
    found = Inspector(executor_of(text), [NonFiniteBreakpoint()])
    found.begin()
    assert described(found.resume()) == ("other", "op log(y) >> y")


def test_watches_report_changes_in_consumers_and_what_comes_back() -> None:
    found = begun(OperatorBreakpoint("neg"), watches=("y[0]", "seen[0]"))
    assert [str(change) for change in found.resume().changes] == [
        "y[0]: 0 -> 1 (transfer x >> y)",
        "seen[0]: 0 -> 1 (op relu(y) >> seen)",
        "y[0]: 1 -> 2 (op add(y,y) >> y)",
        "y[0]: 2 -> 4 (op add(y,y) >> y)",
        "y[0]: 4 -> 1 (yield y)",
    ]
    assert [str(change) for change in found.resume().changes] == ["y[0]: 1 -> 4 (await y)"]


def test_next_passes_consumers_and_finish_leaves_one() -> None:
    found = begun()
    assert found.step().next is not None
    assert described(found.next()) == ("writer", "yield y")  # the last statement of the last consumer
    found = begun()
    found.step(3)
    assert [str(level) for level in found.levels()] == ["block entry", "block reader"]
    assert described(found.finish()) == ("reader", "yield y")
    found.step(2)
    assert [str(level) for level in found.levels()] == ["block entry", "block writer", "loop twice (i = 0, to 2)"]
    assert described(found.turn()) == ("writer", "op add(y,y) >> y")
    assert described(found.finish()) == ("writer", "yield y")


@pytest.mark.rule("runtime.consumers.9")
def test_a_statement_that_fails_ends_its_consumer_and_the_step_at_the_await() -> None:
    found = Inspector(executor_of(FAILING))
    found.begin()
    stop = found.resume()
    assert described(stop) == ("bad", "cache.read T[a] >> a")
    assert isinstance(stop.failure, oi.ExecutionError)
    assert stop.failure.code == "cache-index"
    assert stop.next is not None
    assert (stop.next.block, stop.next.desc) == ("good", "await b")
    with pytest.raises(oi.ExecutionError) as caught:
        found.resume()
    assert caught.value is stop.failure
    assert (caught.value.block, found.is_running) == ("bad", False)
    assert found.executor.fetch("ends") == 1  # the other one finished


def test_leaving_in_a_consumer_aborts_the_step() -> None:
    found = begun(WriteBreakpoint("turns"))
    assert found.resume().hits
    found.close()
    assert (found.executor.is_running, tuple(found.executor.frames)) == (False, ())
    assert found.executor.fetch("turns") == 1
    found.executor.step(x=X)
    assert found.executor.fetch("z").tolist() == [5.0, 10.0]


def test_a_race_at_the_yield_lets_consumers_finish_as_in_a_step() -> None:
    text = """volatile { a: f32; b: f32; c: f32; } persistent { ends: i32; }
    block entry { loop once (i in 0..1) { yield a, b; await a, b; } return; }
    block first { await a; cache.increment ends; transfer a >> c; yield a; }
    block second { await b; transfer c >> b; yield b; }"""
    ends: list[int] = []
    for looking in (False, True):
        executor = executor_of(text)
        with pytest.raises(oi.RaceError):
            list(executor.iterate(consumers=looking))
        ends.append(executor.fetch("ends"))
    assert ends == [1, 1]


def test_blocks_of_consumers_are_stops_when_iterating_by_block() -> None:
    executor = executor_of()
    executor.insert(x=X)
    runs = [run.event for run in executor.iterate(by="block", consumers=True)]
    assert [(event.track, event.node_desc) for event in runs] == [
        ("reader", "yield y"),
        ("writer", "cache.increment turns"),
        ("writer", "yield y"),
        ("entry", "return z"),
    ]


def test_memory_is_shown_after_nodes_of_consumers_too() -> None:
    executor = executor_of("""volatile { y: f32; z: f32[3]; } persistent { K(t): f32[3] @table; }
    block entry { yield y; await y; return y; }
    block other { await y; loop l (i in 0..2) { cache.read K[i] >> z; } yield y; }""")
    uses = [(use.node_desc, use.live["persistent"]) for use in memory_over_time(executor)]
    assert [bytes_ for desc, bytes_ in uses if desc == "cache.read K[i] >> z"] == [12, 24]


def test_a_consumer_that_runs_again_starts_at_its_beginning() -> None:
    text = """volatile { y: i32; one: i32 @init(1); } block entry { loop l (i in 0..2) { yield y; await y; } return y; }
    block other { await y; op add(y, one) >> y; yield y; }"""
    found = Inspector(executor_of(text), [OperatorBreakpoint("add")])
    found.begin()
    assert [len(found.resume().hits) for _ in range(3)] == [1, 1, 0]
    assert found.executor.fetch("y") == 2


@pytest.mark.parametrize("by", ["node", "block"])
def test_the_log_shows_consumers_and_the_iteration_stays_in_entry(
    by: Literal["node", "block"], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    quiet, loud = executor_of(trace=True), executor_of(trace=True)
    for executor in (quiet, loud):
        executor.insert(x=X)
    runs = [run.event.node_desc for run in quiet.iterate(by=by)]
    monkeypatch.setenv("OPENINFER_TRACE", "1")
    logs.read_environment()
    try:
        assert [run.event.node_desc for run in loud.iterate(by=by)] == runs
    finally:
        monkeypatch.delenv("OPENINFER_TRACE")
        logs.read_environment()
    reported = [line.partition(" -- ")[2].split(" -- ")[0] for line in capsys.readouterr().err.splitlines()]
    assert [place.split()[0] for place in reported].count("[writer]") == len(WRITER) - 1
    assert [event.node_desc for event in loud.trace()] == [event.node_desc for event in quiet.trace()]
