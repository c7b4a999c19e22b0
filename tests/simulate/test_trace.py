"""Events, timing, and stepping node by node (runtime specification, sections 9 and 10)."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.simulate import Executor, Simulator, logs

PROGRAM = """
dynamic { x: f32[2]; c: bool; }
volatile { W(l): f32[2] @pattern("w{l}"); y: f32[2]; }
persistent { n: i32; k: f32[2]; }
block entry {
  assign t: f32[2];
  transfer x >> t;
  loop rows (l in 0..2) { op add(t, W[l]) >> t; transfer W[l] >> y; }
  op mul(t, W[0]) >> y;
  cache.increment n;
  cache.decrement 5 n;
  cache.write y >> k;
  cache.read k >> t;
  cache.reset k;
  branch c yes no;
  branch no;
  barrier;
  dep after(mul) before(branch);
  return y;
}
block yes { return; }
block no { cache.increment 5 n; }
"""
MODEL = oi.Model.from_arrays({"w0": np.array([1, 2], np.float32), "w1": np.array([3, 4], np.float32)})


@pytest.fixture
def traced() -> Executor:
    return Simulator(MODEL, graph(PROGRAM), trace=True).make_executor()


EXPECTED = [
    ("Assign", "entry", "assign t", (), ("t",)),
    ("Transfer", "entry", "transfer x >> t", ("x",), ("t",)),
    ("Loop", "entry", "loop rows (l in 0..2)", ("l=0..2",), ()),
    ("OpExecute", "entry", "op add(t,W[l=0]) >> t", ("t", "W[l=0]"), ("t",)),
    ("Transfer", "entry", "transfer W[l=0] >> y", ("W[l=0]",), ("y",)),
    ("OpExecute", "entry", "op add(t,W[l=1]) >> t", ("t", "W[l=1]"), ("t",)),
    ("Transfer", "entry", "transfer W[l=1] >> y", ("W[l=1]",), ("y",)),
    ("OpExecute", "entry", "op mul(t,W[0]) >> y", ("t", "W[0]"), ("y",)),
    ("CacheIncrement", "entry", "cache.increment n", ("n",), ()),
    ("CacheDecrement", "entry", "cache.decrement 5 n", ("n",), ()),
    ("CacheWrite", "entry", "cache.write y >> k", ("y",), ("k",)),
    ("CacheRead", "entry", "cache.read k >> t", ("k",), ("t",)),
    ("CacheReset", "entry", "cache.reset k", ("k",), ()),
    ("Branch", "entry", "branch c yes no", ("c",), ("yes",)),
    ("Return", "yes", "return", (), ()),
    ("Branch", "entry", "branch no", (), ("no",)),
    ("CacheIncrement", "no", "cache.increment 5 n", ("n",), ()),
    ("Barrier", "entry", "barrier", (), ()),
    ("Dep", "entry", "dep after(mul) before(branch)", ("mul",), ("branch",)),
    ("Return", "entry", "return y", (), ("y",)),
]


@pytest.mark.rule("runtime.control.10", "runtime.traces.3", "runtime.traces.7")
def test_every_node_that_runs_is_an_event(traced: Executor, capsys: pytest.CaptureFixture[str]) -> None:
    last = traced.step(x=[1.0, 1.0], c=True)
    events = traced.trace()
    assert [(e.kind, e.block_name, e.node_desc, e.params, e.output) for e in events] == EXPECTED
    assert last == events[-1]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"0 {events[0].node_uuid} [entry] -- assign t -- (0ms 0us 0ns)"
    assert len(lines) == len(events)


@pytest.mark.rule("runtime.traces.1", "runtime.traces.6")
def test_events_name_their_nodes_in_the_graph(traced: Executor) -> None:
    traced.insert(x=[1.0, 1.0], c=True)
    nodes = {str(node.uuid): node.index for _, node in graph(PROGRAM).nodes()}
    assert all(nodes[run.event.node_uuid] == run.event.node_index for run in traced.iterate())


@pytest.mark.rule("runtime.host.10", "runtime.traces.1")
def test_the_trace_spans_steps_until_it_is_cleared(traced: Executor) -> None:
    for _ in range(2):
        traced.insert(x=[1.0, 1.0], c=True)
        list(traced.iterate())
    starts = [event.start_ns for event in traced.trace()]
    assert len(starts) == 2 * len(EXPECTED)
    assert starts == sorted(starts)
    traced.clear_trace()
    assert traced.trace() == []


@pytest.mark.rule("runtime.host.2", "runtime.host.10", "runtime.traces.7")
def test_iterating_prints_nothing_and_records_nothing_without_tracing(capsys: pytest.CaptureFixture[str]) -> None:
    ex = Simulator(MODEL, graph(PROGRAM)).make_executor()
    ex.insert(x=[1.0, 1.0], c=True)
    assert len(list(ex.iterate())) == len(EXPECTED)
    assert ex.trace() == []
    assert capsys.readouterr().out == ""


def test_a_step_without_tracing_reports_its_last_node_each_time() -> None:
    text = """
    dynamic { n: i32; }
    volatile { W(l): f32[2] @pattern("w{l}"); y: f32[2]; }
    block entry { loop rows (l in 0..n) { transfer W[l] >> y; } }
    """
    executor = Simulator(MODEL, graph(text)).make_executor()
    reported = [executor.step(n=n) for n in (1, 2, 2, 0)]
    assert [(event.node_desc, event.start_ns) for event in reported if event] == [
        ("transfer W[l=0] >> y", 0),
        ("transfer W[l=1] >> y", 0),
        ("transfer W[l=1] >> y", 0),
        ("loop rows (l in 0..n)", 0),
    ]


@pytest.mark.rule("runtime.host.8")
def test_stepping_and_iterating_give_the_same_values() -> None:
    first, second = (Simulator(MODEL, graph(PROGRAM)).make_executor() for _ in range(2))
    last = first.step(x=[1.0, 5.0], c=False)
    second.insert(x=[1.0, 5.0], c=False)
    events = [run.event for run in second.iterate()]
    assert first.fetch("y").tolist() == second.fetch("y").tolist() == [5.0, 22.0]
    assert first.fetch("n") == second.fetch("n")
    assert last is not None
    assert (last.kind, last.node_index) == (events[-1].kind, events[-1].node_index)


@pytest.mark.rule("runtime.host.2", "runtime.traces.2")
def test_only_operators_are_timed() -> None:
    ex = Simulator(MODEL, graph(PROGRAM)).with_timer().make_executor()
    ex.insert(x=[1.0, 1.0], c=True)
    events = [run.event for run in ex.iterate()]
    assert all((event.duration_ns > 0) == (event.kind == "OpExecute") for event in events)


@pytest.mark.rule("runtime.memory.3")
def test_a_value_can_be_fetched_between_nodes() -> None:
    ex = Simulator(MODEL, graph(PROGRAM)).make_executor()
    ex.insert(x=[1.0, 1.0], c=True)
    seen = [run.fetch("t").tolist() for run in ex.iterate() if run.event.op_name == "add"]
    assert seen == [[2.0, 3.0], [5.0, 7.0]]


@pytest.mark.rule("runtime.host.9")
def test_iterating_by_block_stops_after_each_run_of_a_block() -> None:
    ex = Simulator(MODEL, graph(PROGRAM)).make_executor()
    ex.insert(x=[1.0, 1.0], c=True)
    stops = [(run.event.block_name, run.event.node_desc) for run in ex.iterate(by="block")]
    assert stops == [("yes", "return"), ("no", "cache.increment 5 n"), ("entry", "return y")]


@pytest.mark.rule("runtime.host.12")
def test_an_executor_is_running_between_the_first_and_the_last_item() -> None:
    ex = Simulator(MODEL, graph(PROGRAM)).make_executor()
    ex.insert(x=[1.0, 1.0], c=True)
    assert not ex.is_running
    states = [ex.is_running for _ in ex.iterate()]
    assert states == [True] * (len(EXPECTED) - 1) + [False]
    assert not ex.is_running


@pytest.mark.rule("runtime.host.15")
@pytest.mark.parametrize("call", ["step", "insert", "iterate", "outputs", "reset"])
def test_one_step_at_a_time(call: str) -> None:
    ex = Simulator(MODEL, graph(PROGRAM)).make_executor()
    ex.insert(x=[1.0, 1.0], c=True)
    running = ex.iterate()
    next(running)
    with pytest.raises(oi.StepStateError, match="while a step is running") as caught:
        next(ex.iterate()) if call == "iterate" else getattr(ex, call)()
    assert caught.value.code == "step-state"
    running.close()


@pytest.mark.rule("runtime.host.15")
@pytest.mark.parametrize("closed", [True, False])
def test_a_dropped_iterator_aborts_its_step(closed: bool) -> None:
    ex = Simulator(MODEL, graph(PROGRAM)).make_executor()
    ex.insert(x=[1.0, 1.0], c=True)
    running = ex.iterate()
    for _ in range(9):
        next(running)
    if closed:
        running.close()
    del running
    gc.collect()
    assert not ex.is_running
    assert ex.outputs() == {}
    assert ex.fetch("n") == 1
    with pytest.raises(oi.DynamicUnsetError):
        ex.step()


@pytest.mark.rule("language.return.1", "runtime.host.11")
def test_results_are_named_by_the_return_of_entry() -> None:
    ex = Simulator(oi.Model.from_arrays(), graph(
        "dynamic { x: f32; } block entry { assign t: f32; op add(x, x) >> t; return t, x; }"
    )).make_executor()  # fmt: skip
    assert ex.outputs() == {}
    ex.step(x=2.0)
    assert ex.outputs() == {"t": 4.0, "x": 2.0}
    ex.insert(x=9.0)
    assert ex.outputs() == {"t": 4.0, "x": 2.0}


@pytest.mark.rule("runtime.log.6")
@pytest.mark.parametrize(
    ("value", "traced", "timed"), [("1", True, False), (" Full ", True, True), ("0", False, False), ("", False, False)]
)
def test_the_environment_turns_tracing_on(
    monkeypatch: pytest.MonkeyPatch, value: str, traced: bool, timed: bool
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("OPENINFER_TRACE", value)
        logs.read_environment()
        sim = Simulator(oi.Model.from_arrays(), graph("volatile { y: f32; } block entry { op exp(y) >> y; return; }"))
        ex, quiet = sim.make_executor(), Simulator(oi.Model.from_arrays(), trace=False)
    logs.read_environment()
    list(ex.iterate())
    assert bool(ex.trace()) is traced
    assert any(event.duration_ns for event in ex.trace()) is timed
    quiet_executor = quiet.make_executor(graph("block entry { return; }"))
    quiet_executor.step()
    assert quiet_executor.trace() == []


@pytest.mark.rule("runtime.log.5")
def test_logs_report_binding_warnings_and_failed_steps(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = graph("dynamic { x: f32; } volatile { y: f32; } block entry { op add(x, x) >> y; }")
    with monkeypatch.context() as patch:
        patch.setenv("OPENINFER_TRACE", "full")
        logs.read_environment()
        ex = Simulator(oi.Model.from_arrays(), program, trace=False).make_executor()
        for step in (ex.step, lambda: list(ex.iterate())):
            with pytest.raises(oi.DynamicUnsetError):
                step()
    logs.read_environment()
    kinds = [line.split()[1] for line in capsys.readouterr().err.splitlines()]
    assert kinds == ["[WARNING]", "[TRACE]", "[ERROR]", "[ERROR]"]


def test_printing_can_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    program = graph("volatile { y: f32; } block entry { op add(y, y) >> y; return; }")
    ex = Simulator(oi.Model.from_arrays({}), program, trace=True, echo=False).make_executor()
    ex.step()
    assert capsys.readouterr().out == ""
    assert [event.kind for event in ex.trace()] == ["OpExecute", "Return"]


@pytest.mark.rule("runtime.host.9", "runtime.traces.4")
def test_a_step_and_an_iteration_record_the_same() -> None:
    program = graph("""
        dynamic { b: bool; } volatile { y: f32; W(l, k): f32 @pattern("w{l}{k}"); }
        block entry { loop a (i in 0..2) { loop c (j in i..2) { op add(y, W[i, j]) >> y; } branch b yes no; } return; }
        block yes { transfer W[0, 0] >> y; } block no { return; }
    """)
    arrays = {f"w{i}{j}": np.float32(i + j) for i in range(2) for j in range(2)}
    stepped, iterated = (
        Simulator(oi.Model.from_arrays(arrays), program, trace=True, echo=False).make_executor() for _ in range(2)
    )
    for flag in (True, False):
        last = stepped.step(b=flag)
        iterated.insert(b=flag)
        runs = [run.event for run in iterated.iterate()]
        assert last == stepped.trace()[-1]
        assert runs == iterated.trace()[-len(runs) :]
    shown = [
        [(e.kind, e.node_index, e.node_desc, e.params, e.output) for e in ex.trace()] for ex in (stepped, iterated)
    ]
    assert shown[0] == shown[1]
    assert ("OpExecute", "op add(y,W[i=0, j=1]) >> y") in [(kind, desc) for kind, _, desc, *_ in shown[0]]


def test_a_failed_step_prints_what_ran_before(capsys: pytest.CaptureFixture[str]) -> None:
    program = graph("dynamic { x: f32; } volatile { y: f32; } block entry { op add(y, y) >> y; op add(x, y) >> y; }")
    ex = Simulator(oi.Model.from_arrays({}), program, trace=True).make_executor()
    with pytest.raises(oi.DynamicUnsetError):
        ex.step()
    assert [line.split("--")[1].strip() for line in capsys.readouterr().out.splitlines()] == ["op add(y,y) >> y"]
