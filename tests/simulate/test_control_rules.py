"""Rules of sections 6 and 9 of the runtime specification that belong to none of the others: scopes, order, threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.simulate import Simulator

NOTHING = oi.Model.from_arrays({})


@pytest.mark.rule("runtime.control.8")
def test_a_block_does_not_see_the_index_of_the_loop_that_calls_it() -> None:
    text = """
        volatile { y: f32; } persistent { K(n): f32 @table; }
        block entry { loop l (i in 0..2) { cache.read K[i] >> y; branch b; } return; }
        block b { cache.read K[i] >> y; return; }
    """
    with pytest.raises(oi.ValidationError) as caught:
        Simulator(NOTHING, graph(text))
    assert [(d.code, d.block) for d in caught.value.diagnostics] == [("unknown-variable", "b")]


@pytest.mark.rule("runtime.control.10")
def test_barrier_and_dep_change_nothing() -> None:
    text = """
        dynamic { x: f32; } volatile { y: f32; } persistent { n: i32; }
        block entry { FIRST op add(x, x) >> y; cache.increment n; SECOND op mul(y, x) >> y; return; }
    """
    plain = graph(text.replace("FIRST", "").replace("SECOND", ""))
    ordered = graph(text.replace("FIRST", "barrier;").replace("SECOND", "barrier; dep after(add) before(mul);"))
    found = []
    for program in (plain, ordered):
        ex = Simulator(NOTHING, program).make_executor()
        for x in (3.0, 4.0):
            ex.step(x=x)
            found.append(ex.fetch("y", "n"))
    assert found[:2] == found[2:] == [(18.0, 1), (32.0, 2)]


@pytest.mark.rule("runtime.host.2")
def test_tracing_and_timing_concern_later_executors() -> None:
    program = graph("volatile { y: f32; } block entry { op exp(y) >> y; return; }")
    simulator = Simulator(NOTHING, program, trace=False, timer=False, echo=False)
    before = simulator.make_executor()
    assert simulator.with_trace().with_timer() is simulator
    after = simulator.make_executor()
    for ex in (before, after):
        ex.step()
    assert before.trace() == []
    assert [event.duration_ns > 0 for event in after.trace()] == [True, False]


@pytest.mark.rule("runtime.host.8")
def test_a_step_without_nodes_has_no_last_event() -> None:
    ex = Simulator(NOTHING, graph("dynamic { x: f32; } block entry { }")).make_executor()
    assert ex.step(x=1.0) is None
    assert ex.fetch("x") == 1.0
    assert list(ex.iterate()) == []


@pytest.mark.rule("runtime.host.16")
def test_executors_in_threads_share_a_model() -> None:
    weights = {f"w{i}": np.full((64, 64), i + 1, np.float32) for i in range(8)}
    program = graph("""
        dynamic { x: f32[64]; } volatile { W(i): f32[64, 64] @pattern("w{i}"); v: f32[64]; }
        persistent { K(n): f32[64] @table; }
        block entry { transfer x >> v; loop l (i in 0..8) { op sum_axis(W[i], axes=[0]) >> v; op add(v, x) >> v;
          cache.write v >> K[i]; } return v; }
    """)
    simulator = Simulator(oi.Model.from_arrays(weights), program)
    together = Barrier(4)

    def run(number: int) -> tuple[list[float], list[float]]:
        ex = simulator.make_executor()
        together.wait()
        for step in range(20):
            ex.step(x=np.full(64, number + step, np.float32))
        return ex.fetch("v").tolist(), ex.fetch("K")[:, 0].tolist()

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(run, range(4)))
    for number, (last, kept) in enumerate(found):
        assert last == [64.0 * 8 + number + 19] * 64
        assert kept == [64.0 * (i + 1) + number + 19 for i in range(8)]
