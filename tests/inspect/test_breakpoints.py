"""Breakpoints, watch expressions and stepping: where an inspected step stops, and what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.cli.stepping_views import variable_lines
from openinfer.inspect import (
    BlockBreakpoint,
    Breakpoint,
    ConditionBreakpoint,
    Inspector,
    LineBreakpoint,
    NonFiniteBreakpoint,
    OperatorBreakpoint,
    RangeBreakpoint,
    Stop,
    WriteBreakpoint,
)
from openinfer.plugins.environment import Environment
from openinfer.plugins.probing import probe
from openinfer.simulate import Executor

PROGRAM = """dynamic { x: f32[2]; c: bool; }
volatile { y: f32[2]; z: f32[2]; W(l): f32[2] @pattern("w{l}"); }
persistent { n: i32; K(t): f32[2] @table; }
block entry {
  assign h: f32[2];
  transfer x >> h;
  loop rows (l in 0..3) {
    op add(h, W[l]) >> h;
    cache.write h >> K[l];
  }
  branch c tall flat;
  cache.increment n;
  op log(y) >> z;
  op neg(z) >> z;
  return h;
}
block tall {
  op mul(h, h) >> y;
  branch flat;
}
block flat {
  op relu(y) >> y;
}
"""
MODEL = oi.Model.from_arrays({f"w{i}": np.full(2, i, np.float32) for i in range(3)})


def executor_of(text: str = PROGRAM) -> Executor:
    return oi.Simulator(MODEL, oi.graph(text)).make_executor()


def inspector(*breakpoints: Breakpoint, watches: tuple[str, ...] = (), c: bool = True) -> Inspector:
    found = Inspector(executor_of(), breakpoints, watches)
    found.begin(x=np.array([1, 2], np.float32), c=c)
    return found


def ran(stop: Stop) -> str:
    return "" if stop.event is None else stop.event.node_desc


def upcoming(stop: Stop) -> str:
    return "" if stop.next is None else stop.next.desc


def stops(found: Inspector) -> list[tuple[str, str]]:
    """What has run and what runs next, at every stop until the step is over."""
    places: list[tuple[str, str]] = []
    while not (stop := found.resume()).ended:
        places.append((ran(stop), upcoming(stop)))
    return places


def test_operators_and_lines_stop_before_their_statement() -> None:
    assert stops(inspector(OperatorBreakpoint("relu"))) == [("branch flat", "op relu(y) >> y")]
    assert stops(inspector(LineBreakpoint(8))) == [
        ("loop rows (l in 0..3)", "op add(h,W[l]) >> h"),
        ("cache.write h >> K[l]", "op add(h,W[l]) >> h"),
        ("cache.write h >> K[l]", "op add(h,W[l]) >> h"),
    ]


def test_a_block_stops_at_the_beginning_of_each_run() -> None:
    assert stops(inspector(BlockBreakpoint("flat"))) == [("branch flat", "op relu(y) >> y")]
    assert inspector(BlockBreakpoint("entry")).resume().ended
    found = Inspector(executor_of(), [BlockBreakpoint("entry")])
    assert [str(hit) for hit in found.begin(x=[1, 2], c=True).hits] == ["block entry"]


def test_writes_stop_after_their_statement() -> None:
    assert [place[0] for place in stops(inspector(WriteBreakpoint("y")))] == ["op mul(h,h) >> y", "op relu(y) >> y"]
    assert [place[0] for place in stops(inspector(WriteBreakpoint("K")))] == ["cache.write h >> K[l]"] * 3
    assert [place[0] for place in stops(inspector(WriteBreakpoint("n")))] == ["cache.increment n"]


def test_a_stop_names_its_breakpoint() -> None:
    found = inspector(OperatorBreakpoint("relu"), WriteBreakpoint("y"), LineBreakpoint(22))
    first, second = found.resume(), found.resume()
    assert [str(hit) for hit in first.hits] == ["write y"]
    assert [str(hit) for hit in second.hits] == ["op relu", "line 22"]


def test_infinity_is_caught_where_it_appears_and_not_where_it_goes_on() -> None:
    found = inspector(NonFiniteBreakpoint(), c=False)
    stop = found.resume()
    assert (ran(stop), [str(hit) for hit in stop.hits]) == ("op log(y) >> z", ["non-finite: infinity in `z`"])
    assert found.resume().ended


def test_an_infinity_that_a_statement_writes_as_a_number_is_shown_as_it_is_written() -> None:
    text = (
        "dynamic { x: f32[2]; } constant { one: f32 @init(1.0); } block entry { op fma(x, inf, one) >> y; return y; }"
    )
    executor = executor_of(text)
    found = Inspector(executor, [NonFiniteBreakpoint()])
    found.begin(x=np.ones(2, np.float32))
    constants = [line for line in variable_lines(executor) if line.startswith("constant")]
    assert constants == ["constant   one: f32 = {1.00}"]
    assert [str(hit) for hit in found.resume().hits] == ["non-finite: `inf` is infinite as this statement writes it"]


def test_infinity_does_not_appear_again_where_a_cache_is_read() -> None:
    text = """volatile { y: f32; z: f32; } persistent { K(t): f32 @table; n: f32 @init(3e38); }
    block entry { op log(y) >> y; cache.write y >> K[0]; cache.read K[0] >> z; op neg(z) >> z;
      cache.read n >> y; op add(y, y) >> z; return z; }"""
    found = Inspector(executor_of(text), [NonFiniteBreakpoint()])
    found.begin()
    assert [place[0] for place in stops(found)] == ["op log(y) >> y", "op add(y,y) >> z"]


@pytest.mark.parametrize(
    ("breakpoint_", "expected"),
    [
        (NonFiniteBreakpoint(), ["op log(y) >> y", "op mul(y,b) >> y"]),
        (NonFiniteBreakpoint(infinity=False), ["op mul(y,b) >> y"]),
        (NonFiniteBreakpoint(nan=False), ["op log(y) >> y"]),
    ],
)
def test_operators_that_overwrite_their_inputs_are_compared_with_the_inputs_before(
    breakpoint_: Breakpoint, expected: list[str]
) -> None:
    text = """volatile { y: f32; b: f32; }
    block entry { op log(y) >> y; op neg(y) >> y; op mul(y, b) >> y; op neg(y) >> y; }"""
    found = Inspector(executor_of(text), [breakpoint_])
    found.begin()
    assert [place[0] for place in stops(found)] == expected


def test_values_outside_of_a_range_stop() -> None:
    found = inspector(RangeBreakpoint(high=4))
    stop = found.resume()
    assert (ran(stop), str(stop.hits[0])) == (
        "op add(h,W[l=2]) >> h",
        "range -inf..4: `h` has 5.0 (1 of 2 are outside)",
    )
    only = inspector(RangeBreakpoint(high=4, variable="y"))
    assert ran(only.resume()) == "op mul(h,h) >> y"
    table = inspector(RangeBreakpoint(high=4, variable="K"))
    assert ran(table.resume()) == "cache.write h >> K[l]"


def test_a_condition_stops_when_it_becomes_true_and_not_while_it_stays() -> None:
    assert stops(inspector(ConditionBreakpoint("max(abs(h)) > 2.5"))) == [
        ("op add(h,W[l=1]) >> h", "cache.write h >> K[l]")
    ]
    assert stops(inspector(ConditionBreakpoint("l == 2 and h[1] >= 5"))) == [
        ("op add(h,W[l=2]) >> h", "cache.write h >> K[l]")
    ]


def test_watches_report_changes_in_order() -> None:
    found = inspector(watches=("n", "h[0]", "K[l]", "sum(h) / 2"))
    changes = [str(change).partition(" (")[0] for change in found.resume().changes]
    assert changes == [
        "h[0]: no value -> 0",
        "sum(h) / 2: no value -> 0",
        "h[0]: 0 -> 1",
        "sum(h) / 2: 0 -> 1.5",
        "K[l]: no value -> {0.00, 0.00}",
        "K[l]: {0.00, 0.00} -> {1.00, 2.00}",
        "h[0]: 1 -> 2",
        "K[l]: {1.00, 2.00} -> {0.00, 0.00}",
        "sum(h) / 2: 1.5 -> 2.5",
        "K[l]: {0.00, 0.00} -> {2.00, 3.00}",
        "h[0]: 2 -> 4",
        "K[l]: {2.00, 3.00} -> {0.00, 0.00}",
        "sum(h) / 2: 2.5 -> 4.5",
        "K[l]: {0.00, 0.00} -> {4.00, 5.00}",
        "K[l]: {4.00, 5.00} -> no value",
        "n: 0 -> 1",
    ]


def test_changes_are_those_since_the_last_stop() -> None:
    found = inspector(watches=("n",))
    while upcoming(stop := found.step()) != "cache.increment n":
        assert stop.changes == ()
    assert [str(change) for change in found.step().changes] == ["n: 0 -> 1 (cache.increment n)"]
    assert found.step().changes == ()


def test_step_goes_into_blocks_and_next_over_them() -> None:
    into, over = inspector(LineBreakpoint(11)), inspector(LineBreakpoint(11))
    into.resume()
    over.resume()
    assert upcoming(into.step()) == "op mul(h,h) >> y"
    assert upcoming(over.next()) == "cache.increment n"


def test_next_runs_a_loop_with_all_its_iterations() -> None:
    found = inspector()
    found.step(2)
    stop = found.next()
    assert (ran(stop), upcoming(stop)) == ("cache.write h >> K[l]", "branch c tall flat")


def test_turn_goes_to_the_next_turn_and_past_the_last() -> None:
    found = inspector()
    found.step(3)
    assert [upcoming(found.turn()) for _ in range(3)] == [
        "op add(h,W[l]) >> h",
        "op add(h,W[l]) >> h",
        "branch c tall flat",
    ]
    with pytest.raises(oi.StepStateError, match="no loop is running"):
        found.turn()


def test_finish_leaves_the_block() -> None:
    found = inspector(BlockBreakpoint("tall"))
    found.resume()
    assert upcoming(found.finish()) == "cache.increment n"
    assert found.finish().ended


def test_breakpoints_stop_whatever_is_stepped_over() -> None:
    found = inspector(OperatorBreakpoint("relu"), LineBreakpoint(11))
    found.resume()
    assert upcoming(found.next()) == "op relu(y) >> y"
    assert upcoming(found.finish()) == "cache.increment n"


def test_levels_name_blocks_and_loops_with_the_statements_that_opened_them() -> None:
    found = inspector(BlockBreakpoint("flat"))
    found.step(3)
    assert [str(level) for level in found.levels()] == ["block entry", "loop rows (l = 0, to 3)"]
    found.resume()
    assert [str(level) for level in found.levels()] == ["block entry", "block tall", "block flat"]
    openers = [level.opener.span.line for level in found.levels()[1:] if level.opener and level.opener.span]
    assert openers == [11, 19]


def test_an_inspected_step_gives_the_same_values_as_a_step() -> None:
    found, plain = inspector(NonFiniteBreakpoint(), WriteBreakpoint("h"), watches=("K[]", "h")), executor_of()
    while not found.resume().ended:
        pass
    plain.step(x=np.array([1, 2], np.float32), c=True)
    for name in ("y", "z", "n", "K"):
        assert np.array_equal(found.executor.fetch(name), plain.fetch(name))
    assert found.executor.outputs()["h"].tolist() == plain.outputs()["h"].tolist()


def test_steps_follow_each_other() -> None:
    found = inspector(watches=("n",))
    assert found.resume().ended
    with pytest.raises(oi.StepStateError, match="begin one"):
        found.step()
    found.begin(x=[1, 2], c=False)
    with pytest.raises(oi.StepStateError, match="let it end"):
        found.begin()
    assert found.resume().ended
    assert found.executor.fetch("n") == 2


def test_closing_aborts_the_step() -> None:
    found = inspector()
    found.step()
    found.close()
    assert not found.executor.is_running
    assert not found.is_running


def test_an_interrupt_stops_after_the_statement_that_runs() -> None:
    found = inspector()
    original = found.executor.fetch_raw

    def interrupting(name: str) -> Any:
        found.interrupt()
        return original(name)

    found.add(RangeBreakpoint(high=1e9))
    found.executor.fetch_raw = interrupting
    stop = found.resume()
    assert (ran(stop), stop.interrupted, stop.hits) == ("assign h", True, ())


def test_an_error_ends_the_step_and_the_inspector_goes_on() -> None:
    found = Inspector(executor_of())
    found.begin(x=[1, 2])
    with pytest.raises(oi.DynamicUnsetError):
        found.resume()
    assert not found.is_running
    found.begin(x=[1, 2], c=True)
    assert found.resume().ended


def test_next_runs_the_first_statement_alone() -> None:
    found = Inspector(executor_of())
    found.begin(x=[1, 2], c=True)
    assert [ran(found.next()) for _ in range(3)] == ["assign h", "transfer x >> h", "cache.write h >> K[l]"]
    assert found.is_running


def test_an_empty_program_is_over_at_once() -> None:
    found = Inspector(executor_of("block entry { }"))
    assert found.begin().ended
    assert not found.is_running


CONSUMER = """volatile { a: f32; b: f32; } block entry { yield a; await a; op neg(a) >> b; return; }
block other { await a; op exp(a) >> a; yield a; }
block unused { op sin(b) >> b; }"""


@pytest.mark.parametrize(
    ("text", "breakpoint_", "reported"),
    [
        (PROGRAM, OperatorBreakpoint("rellu"), "did you mean `relu`"),
        (PROGRAM, LineBreakpoint(1), "no statement that begins on line 1: line 5 has"),
        (PROGRAM, BlockBreakpoint("tal"), "did you mean `tall`"),
        (PROGRAM, WriteBreakpoint("x"), "no statement that writes `x`"),
        (PROGRAM, WriteBreakpoint("yy"), "unknown variable `yy`"),
        (PROGRAM, RangeBreakpoint(2, 1), "from low to high"),
        (PROGRAM, RangeBreakpoint(float("nan"), 1), "from low to high"),
        (PROGRAM, ConditionBreakpoint("hh > 1"), "unknown variable `hh`"),
        (CONSUMER, OperatorBreakpoint("sin"), "`unused` only, which nothing calls"),
        (CONSUMER, BlockBreakpoint("unused"), "`unused` only"),
    ],
)
def test_breakpoints_that_can_never_be_met_are_refused(text: str, breakpoint_: Breakpoint, reported: str) -> None:
    with pytest.raises(oi.ExecutionError, match=reported) as caught:
        Inspector(executor_of(text), [breakpoint_])
    assert caught.value.code in ("bad-breakpoint", "unknown-variable")


def test_numbers_name_breakpoints_and_watches() -> None:
    found = inspector()
    numbers = found.add(LineBreakpoint(8)), found.watch("n"), found.add(WriteBreakpoint("y"))
    assert numbers == (1, 2, 3)
    found.remove(2)
    found.remove(1)
    assert list(found.breakpoints) == [3]
    with pytest.raises(oi.ExecutionError, match="number 1: there are 3"):
        found.remove(1)


def test_an_operator_on_another_device_is_one_place_with_its_transfers() -> None:
    device = "vulkan"
    spec = Environment.default().devices.get(device)
    found = None if spec is None else probe(spec)
    if found is None or not found.available:
        pytest.skip("the device vulkan cannot be used here" + ("" if found is None else f": {found.detail}"))
    text = """dynamic { x: f32[2]; } volatile { y: f32[2]; }
    block entry { loop twice (i in 0..2) { op add(y, x) >> y with { placement = "vulkan" }; } return y; }"""
    executor = oi.Simulator(oi.Model.from_arrays({}), placement=True).make_executor(oi.graph(text))
    inspector = Inspector(executor, [OperatorBreakpoint("add")])
    inspector.begin(x=np.ones(2, np.float32))
    assert [ahead for _, ahead in stops(inspector)] == ["op add(y,x) >> y"] * 2
    assert executor.fetch("y").tolist() == [2.0, 2.0]
    inspector.begin(x=np.ones(2, np.float32))
    inspector.step()
    assert [upcoming(inspector.next()) for _ in range(2)] == ["op add(y,x) >> y", "return y"]


ORIGINS = """dynamic { x: f32[3]; s: f32; }
volatile { y: f32[3]; z: f32[3]; }
constant { w: f32[3]; low: f32 @init(-inf); named: f32[3] @ref("deep/name"); W(l): f32[3] @pattern("block.{l}.up"); }
persistent { n: f32[3]; K(t): f32[3] @table; }
block entry {
  op max(x, w) >> y;
  op mul(y, s) >> y;
  op add(y, named) >> y;
  loop rows (l in 0..3) { op add(y, W[l]) >> y; }
  op add(y, low) >> z;
  cache.read n >> z;
  loop entries (t in 0..2) { cache.read K[t] >> z; }
  op gt(x, w) >> mask;
  return y;
}"""
"""Values of every kind from outside."""


def outside(
    *points: Breakpoint, model: dict[str, Any] | None = None, **inputs: Any
) -> tuple[Inspector, dict[str, Any]]:
    weights = {name: np.zeros(3, np.float32) for name in ("w", "deep/name", *(f"block.{i}.up" for i in range(3)))}
    tensors = oi.Model.from_arrays({**weights, **(model or {})})
    values = {"x": np.zeros(3, np.float32), "s": 1.0, **inputs}
    return Inspector(oi.Simulator(tensors, oi.graph(ORIGINS)).make_executor(), points), values


def sentences(found: Inspector, values: dict[str, Any]) -> list[tuple[str, str]]:
    """What ran at each stop of a step, and why it stopped."""
    found.begin(**values)
    stops: list[tuple[str, str]] = []
    while not (stop := found.resume()).ended:
        stops.append((ran(stop), str(stop.hits[0])))
    return stops


BAD = np.array([0, 0, np.nan], np.float32)


@pytest.mark.parametrize(
    ("model", "inputs", "expected"),
    [
        ({"w": BAD}, {}, ("op max(x,w) >> y", "nan: `w[2]` is NaN in the model")),
        (
            {"w": [np.nan, 1, np.nan]},
            {},
            ("op max(x,w) >> y", "nan: `w[0]` is NaN in the model (2 of 3 elements are)"),
        ),
        ({"deep/name": BAD}, {}, ("op add(y,named) >> y", "nan: `deep/name[2]` is NaN in the model")),
        ({"block.1.up": BAD}, {}, ("op add(y,W[l=1]) >> y", "nan: `block.1.up[2]` is NaN in the model")),
        ({}, {"x": BAD}, ("op max(x,w) >> y", "nan: `x[2]` is NaN in the input of this step")),
        ({}, {"s": np.nan}, ("op mul(y,s) >> y", "nan: `s` is NaN in the input of this step")),
    ],
)
def test_nan_from_outside_is_caught_at_the_first_statement_that_reads_it(
    model: dict[str, Any], inputs: dict[str, Any], expected: tuple[str, str]
) -> None:
    arrays = {name: np.array(value, np.float32) for name, value in model.items()}
    found, values = outside(NonFiniteBreakpoint(infinity=False), model=arrays, **inputs)
    assert sentences(found, values)[0] == expected


def test_a_weight_is_reported_once_and_an_input_in_each_step() -> None:
    nan = NonFiniteBreakpoint(infinity=False)
    found, values = outside(nan, model={"w": BAD, "deep/name": BAD})
    assert [why for _, why in sentences(found, values)] == [
        "nan: `w[2]` is NaN in the model",
        "nan: `deep/name[2]` is NaN in the model",
    ]
    assert sentences(found, values) == []
    of_input = ["nan: `x[2]` is NaN in the input of this step"]
    assert [why for _, why in sentences(found, {**values, "x": BAD})] == of_input
    assert len(sentences(found, {**values, "x": BAD})) == 1


def test_infinity_from_outside_is_caught_by_breakpoints_that_look_for_it() -> None:
    found, values = outside(NonFiniteBreakpoint(infinity=False), NonFiniteBreakpoint(nan=False))
    assert sentences(found, values) == [("op add(y,low) >> z", "inf: `low` is infinite by its `@init`")]
    both, values = outside(NonFiniteBreakpoint(), model={"w": np.array([np.nan, 0, -np.inf], np.float32)})
    assert sentences(both, values)[0][1] == "non-finite: `w[0]` is NaN in the model; `w[2]` is infinite in the model"


def test_first_values_of_a_step_come_from_the_program() -> None:
    text = """dynamic { x: f32; } volatile { y: f32[2] @init(nan); z: f32[2]; w: f32 @init(inf); }
    block entry { op add(y, x) >> z; op add(y, z) >> y; op add(w, x) >> w; return y; }"""
    stops = Inspector(executor_of(text), [NonFiniteBreakpoint()])
    assert [why for _, why in sentences(stops, {"x": 1.0})] == [
        "non-finite: `y[0]` is NaN by its `@init` (2 of 2 elements are)",
        "non-finite: `w` is infinite by its `@init`",
    ]


def test_nan_in_restored_memory_is_caught_where_it_is_read_and_what_a_step_stores_is_no_news() -> None:
    text = """dynamic { x: f32[2]; } volatile { y: f32[2]; } persistent { n: f32[2]; K(t): f32[2] @table; steps: i32; }
    block entry {
      cache.read n >> y; cache.read K[0] >> y; op log(x) >> y; cache.write y >> n; cache.write y >> K[0];
      return y; }"""
    bad = executor_of(text)
    bad.insert(x=[-1, 1])
    bad.step()
    state = bad.snapshot()

    restored = executor_of(text)
    restored.restore(state)
    found = Inspector(restored, [NonFiniteBreakpoint()])
    values = {"x": [1, 1]}
    assert sentences(found, values) == [
        ("cache.read n >> y", "non-finite: `y[0]` is NaN in what `n` keeps"),
        ("cache.read K[0] >> y", "non-finite: `y[0]` is NaN in what `K` keeps"),
    ]

    fresh = Inspector(executor_of(text), [NonFiniteBreakpoint(infinity=False)])
    assert sentences(fresh, {"x": [-1, 1]}) == [("op log(x) >> y", "nan: NaN in `y`")]
    assert sentences(fresh, {"x": [1, 1]}) == []


def test_a_weight_is_scanned_once_for_all_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    found, values = outside(NonFiniteBreakpoint())
    fetches: list[str] = []
    fetch = Executor.fetch_raw

    def counted(self: Executor, name: str) -> Any:
        fetches.append(name)
        return fetch(self, name)

    monkeypatch.setattr(Executor, "fetch_raw", counted)
    for _ in range(3):
        sentences(found, values)
    weights = ("w", "named", "low", "W[0]", "W[1]", "W[2]")
    assert [fetches.count(name) for name in weights] == [1] * len(weights)
    assert fetches.count("x") == 3
