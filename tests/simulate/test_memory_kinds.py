"""What may be done with each kind of memory, and when (``specification: runtime.memory``)."""

from __future__ import annotations

from itertools import product

import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.simulate import Executor, Simulator

KINDS = ("dynamic", "volatile", "constant", "persistent", "temporary")
DECLARED = """
dynamic { dynamic_x: f32; }
volatile { volatile_x: f32 @init(2.0); y: f32; }
constant { constant_x: f32 @init(3.0); }
persistent { persistent_x: f32 @init(4.0); other: f32; }
block entry { assign temporary_x: f32; STATEMENT; return; }
"""


def executor(statement: str) -> Executor:
    program = graph(DECLARED.replace("STATEMENT", statement))
    return Simulator(oi.Model.from_arrays({}), program).make_executor()


@pytest.fixture
def ex() -> Executor:
    return executor("op add(dynamic_x, volatile_x) >> volatile_x")


@pytest.mark.rule("runtime.memory.1")
@pytest.mark.parametrize("kind", KINDS)
def test_only_dynamic_variables_are_inserted_between_steps(ex: Executor, kind: str) -> None:
    if kind == "dynamic":
        ex.insert(dynamic_x=1.0)
        assert ex.fetch("dynamic_x") == 1.0
        return
    with pytest.raises(oi.ExecutionError) as caught:
        ex.insert({f"{kind}_x": 1.0})
    assert caught.value.code == "not-dynamic"


@pytest.mark.rule("runtime.memory.1")
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_inserted_during_a_step(ex: Executor, kind: str) -> None:
    ex.insert(dynamic_x=1.0)
    running = ex.iterate()
    next(running)
    with pytest.raises(oi.StepStateError):
        ex.insert({f"{kind}_x": 9.0})
    assert ex.fetch("dynamic_x") == 1.0
    assert [run.fetch("volatile_x") for run in running] == [3.0, 3.0]


@pytest.mark.rule("runtime.memory.2")
@pytest.mark.parametrize(
    ("kind", "value"), [("dynamic", 1.0), ("volatile", 3.0), ("constant", 3.0), ("persistent", 4.0)]
)
def test_what_is_fetched_between_steps_is_the_last_value(ex: Executor, kind: str, value: float) -> None:
    ex.step(dynamic_x=1.0)
    assert ex.fetch(f"{kind}_x") == value


@pytest.mark.rule("runtime.memory.3")
@pytest.mark.parametrize("kind", KINDS)
def test_everything_that_holds_a_value_is_fetched_during_a_step(ex: Executor, kind: str) -> None:
    expected = {"dynamic": 1.0, "volatile": 2.0, "constant": 3.0, "persistent": 4.0, "temporary": 0.0}
    ex.insert(dynamic_x=1.0)
    assert next(iter(ex.iterate())).fetch(f"{kind}_x") == expected[kind]


@pytest.mark.rule("runtime.memory.3")
def test_a_temporary_is_fetched_once_it_is_assigned() -> None:
    ex = executor("transfer volatile_x >> temporary_x; assign later: f32")
    running = ex.iterate()
    next(running)
    with pytest.raises(oi.ExecutionError, match="once its `assign` has run") as caught:
        ex.fetch("later")
    assert caught.value.code == "temporary-unset"
    assert [run.fetch("temporary_x") for run in running] == [2.0, 2.0, 2.0]


WRITES = {
    "op": "op add(volatile_x, volatile_x) >> {kind}_x",
    "transfer": "transfer volatile_x >> {kind}_x",
    "cache.read": "cache.read other >> {kind}_x",
    "cache.write": "cache.write volatile_x >> {kind}_x",
    "cache.increment": "cache.increment {kind}_x",
    "cache.decrement": "cache.decrement {kind}_x",
    "cache.reset": "cache.reset {kind}_x",
}
DIRECT = ("op", "transfer", "cache.read")


def refusal(statement: str, kind: str) -> str:
    """Return the code with which a statement is refused to write to a kind of memory; ``""`` where it may."""
    if statement in DIRECT:
        return {"constant": "write-constant", "persistent": "persistent-direct"}.get(kind, "")
    return "" if kind == "persistent" else "unknown-variable"


@pytest.mark.rule("runtime.checks.8", "runtime.memory.4")
@pytest.mark.parametrize(("statement", "kind"), list(product(WRITES, KINDS)))
def test_every_statement_writes_to_the_kinds_that_it_may(statement: str, kind: str) -> None:
    code = refusal(statement, kind)
    text = WRITES[statement].format(kind=kind)
    if not code:
        executor(text).step()
        return
    with pytest.raises(oi.ValidationError) as caught:
        executor(text)
    assert caught.value.code == code


@pytest.mark.rule("runtime.memory.6")
def test_each_step_starts_with_initial_values_and_keeps_what_persists() -> None:
    ex = executor(
        "op add(volatile_x, constant_x) >> volatile_x; cache.write volatile_x >> other;"
        " cache.increment persistent_x; op add(temporary_x, volatile_x) >> y"
    )
    for turn in (1, 2, 3):
        ex.step(dynamic_x=float(turn))
        names = ("dynamic_x", "volatile_x", "constant_x", "persistent_x", "other", "y")
        assert ex.fetch(*names) == (turn, 5.0, 3.0, 4.0 + turn, 5.0, 5.0)


@pytest.mark.rule("runtime.memory.6")
def test_a_shape_that_a_read_gave_falls_back_at_the_next_step() -> None:
    program = graph("""
        dynamic { x: f32; i: i64; read: bool; } volatile { rows: f32[1] @init(7.0); }
        persistent { K(n): f32 @table; }
        block entry { cache.write x >> K[i]; branch read all none; return; }
        block all { cache.read K[] >> rows; return; } block none { return; }
    """)
    ex = Simulator(oi.Model.from_arrays({}), program).make_executor()
    ex.step(x=1.0, i=2, read=True)
    assert ex.fetch("rows").tolist() == [0, 0, 1]
    ex.step(x=1.0, i=0, read=False)
    assert ex.fetch("rows").tolist() == [7]


@pytest.mark.rule("runtime.memory.9")
def test_fetching_makes_and_grows_nothing() -> None:
    program = graph("persistent { K(n): f32 @table; A(m): f32[2] @auto_dim(m); } block entry { return; }")
    ex = Simulator(oi.Model.from_arrays({}), program).make_executor()
    before = ex.live_bytes()
    assert ex.fetch("K[5]") == 0.0
    assert ex.fetch("K").shape == (0,)
    assert ex.fetch("A").shape == (2,)
    assert ex.snapshot() is not None
    assert ex.live_bytes()["persistent"] == before["persistent"] + 8


@pytest.mark.rule("runtime.memory.13")
def test_a_failed_step_drops_its_temporaries_and_lets_the_next_one_start_cleanly() -> None:
    program = graph("""
        dynamic { x: f32; i: i64; } volatile { v: f32 @init(1.0); out: f32; } persistent { n: i32; K(j): f32 @table; }
        block entry {
          assign t: f32; op add(v, x) >> v; cache.increment n; cache.read K[i] >> t; op add(v, t) >> out; return; }
    """)
    ex = Simulator(oi.Model.from_arrays({}), program).make_executor()
    with pytest.raises(oi.CacheIndexError):
        ex.step(x=1.0, i=-1)
    assert (ex.fetch("v"), ex.fetch("n"), ex.is_running) == (2.0, 1, False)
    with pytest.raises(oi.ExecutionError, match="temporary"):
        ex.fetch("t")
    with pytest.raises(oi.DynamicUnsetError):
        ex.step(i=0)
    ex.step(x=5.0, i=0)
    assert (ex.fetch("v"), ex.fetch("out"), ex.fetch("n")) == (6.0, 6.0, 2)
