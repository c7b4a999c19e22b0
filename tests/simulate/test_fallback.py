"""A device that falls back to cpu for some element types, compared with the same programs on cpu alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.errors import DeviceError, ExecutionError, FeatureMissingError, ValidationError
from openinfer.expr.linear import linearise
from openinfer.inspect import Inspector
from openinfer.inspect.breakpoints import NonFiniteBreakpoint
from openinfer.inspect.divergence import check_comparisons, compare_executors
from openinfer.plugins.environment import Environment
from openinfer.plugins.types import Availability, DeviceSpec, Fallback
from openinfer.simulate import Executor, Simulator, logs
from openinfer.testing.checks import check_operator
from openinfer.testing.oracle import known_oracles
from openinfer.testing.places import device_place
from openinfer_backend_cpu.backend import CpuBackend

NARROW = frozenset({"f32", "i32", "u8", "bool"})
WIDE = frozenset({"f64", "i64"})


class NarrowBackend(CpuBackend):
    """Memory of every type, and work on narrow ones; 64-bit integers within an expression are an optional feature."""

    @property
    def name(self) -> str:
        return "box"

    def bind_expression(self, expr: Any, inputs: Any, output: Any) -> Any:
        used = {each.type.dtype.name for each in (*inputs, output) if each is not None}
        assert used <= NARROW, f"the box was asked to compute in {used}"
        if any(step.dtype.name == "i64" for step in linearise(expr).instructions):
            raise FeatureMissingError("this box does not support what an expression needs: 64-bit integers")
        return super().bind_expression(expr, inputs, output)

    def bind_fold(self, axes: Any, fold: Any, source: Any, output: Any) -> Any:
        assert source.type.dtype.name in NARROW
        return super().bind_fold(axes, fold, source, output)

    def concurrent_backend(self) -> Any:
        return None


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Environment:
    """The installed devices, a `box` that leaves what is wide to cpu, and a `chest` that leaves nothing."""
    there = Availability(available=True, detail="a box")
    absent = Availability(available=False, detail="it has gone; bring it back")
    parts = SimpleNamespace(Backend=NarrowBackend, probe=lambda: there, absent=lambda: absent)
    monkeypatch.setitem(sys.modules, "example_box", parts)
    box = DeviceSpec(
        name="box",
        summary="a device without wide types",
        probe="example_box:probe",
        backend="example_box:Backend",
        expression_dtypes=NARROW,
        optional_dtypes=WIDE,
        fallback=Fallback(device="cpu", dtypes=WIDE),
    )
    known = Environment.default()
    return replace(known, devices={**known.devices, "box": box, "chest": replace(box, name="chest", fallback=None)})


RNG = np.random.default_rng(0)
MODEL = oi.Model.from_arrays(
    {"c": RNG.normal(size=3), "b": RNG.normal(size=3).astype(np.float32)}
    | {f"W.{n}": RNG.normal(size=(3, 3)) for n in range(2)}
)

WHOLE = """
dynamic { x: f64[2, 3]; f: f32[3]; go: bool @init(true); }
constant { c: f64[3]; b: f32[3]; k: f64 @init(0.5); }
volatile {
  W(l): f64[3, 3] @pattern("W.{l}"); y: f64[2, 3]; z: f32[3]; n: i64; total: f64[3]; keys: f64[1, 3]; wide: i64[3];
  small: i32[3] @init(7); scaled: f64[2, 3];
}
persistent { s: f64[3] @init(1.0); K(t): f64[3] @table; step: i64; counter: i64 @init(-2); A(i): f64[2] @auto_dim(i); }
block entry {
  assign h: f64[2, 3];
  assign state: f64[3];
  op add(x, c) >> h;
  loop layers (l in 0..2) {
    op matmul(h, W[l]) >> h;
    op tanh(h) >> h;
    op add(n, l) >> n;
  }
  op add(small, small, acc=i64) >> wide;
  op add(f, b) >> z;
  cache.read s >> state;
  op sum_axis(h, axes=[0]) >> total;
  op add(state, total) >> state;
  cache.write state >> s;
  cache.write state >> K[step];
  cache.read K[] >> keys;
  op mul(keys, keys) >> keys;
  op sum_axis(keys, axes=[0]) >> total;
  cache.increment step;
  cache.decrement 3 counter;
  branch go yes no;
  yield h;
  op mul(z, z) >> z;
  await h;
  branch last;
  return y, z, n;
}
block yes { op neg(total) >> total; return; }
block no { return; }
block consumer { await h; op tanh(h) >> h; yield h; }
block reader { await h; op mul(h, k) >> scaled; yield h; }
block last { op add(h, scaled) >> y; return; }
"""
NAMES = ("y", "z", "n", "total", "keys", "wide", "s", "K[]", "step", "counter", "scaled")


def executor(text: str, device: str, environment: Environment, **options: bool) -> Executor:
    simulator = Simulator(MODEL, graph(text), device=device, environment=environment, echo=False, **options)
    return simulator.make_executor()


def inputs(step: int) -> dict[str, Any]:
    rng = np.random.default_rng(step)
    return {"x": rng.normal(size=(2, 3)), "f": rng.normal(size=3).astype(np.float32), "go": step % 2 == 0}


@pytest.mark.rule("runtime.devices.6")
def test_a_program_computes_bit_for_bit_what_cpu_does(environment: Environment) -> None:
    with executor(WHOLE, "box", environment) as box, executor(WHOLE, "cpu", environment) as cpu:
        for step in range(4):
            box.step(**inputs(step))
            cpu.step(**inputs(step))
            for name in NAMES:
                found, expected = box.fetch_raw(name), cpu.fetch_raw(name)
                assert (found.dtype, found.array.tobytes()) == (expected.dtype, expected.array.tobytes()), name
            assert box.outputs().keys() == cpu.outputs().keys()


def test_executors_keep_their_state_apart(environment: Environment) -> None:
    simulator = Simulator(MODEL, graph(WHOLE), device="box", environment=environment)
    with simulator.make_executor() as one, simulator.make_executor() as other:
        one.step(**inputs(0))
        one.step(**inputs(1))
        other.step(**inputs(0))
        assert (one.fetch("step"), other.fetch("step")) == (2, 1)


SMALL = """
dynamic { x: f64[2]; } constant { d: f64[2] @init(2.0); } volatile { y: f64[2]; z: f32[2]; }
block entry { op mul(x, d) >> y; loop twice (i in 0..2) { op neg(z) >> z; op add(y, y) >> y; } return y; }
"""


@pytest.mark.rule("runtime.devices.6")
def test_transfers_around_the_operator_are_in_the_trace_but_for_what_never_changes(environment: Environment) -> None:
    with executor(SMALL, "box", environment, trace=True) as box:
        box.step(x=[1.0, 2.0])
        found = [(event.kind, event.node_desc) for event in box.trace()]
    assert found[:3] == [
        ("Transfer", "transfer x >> cpu:x"),
        ("OpExecute", "op mul(x,d) >> y"),
        ("Transfer", "transfer cpu:y >> y"),
    ]
    assert found[4:8] == [
        ("OpExecute", "op neg(z) >> z"),
        ("Transfer", "transfer y >> cpu:y"),
        ("OpExecute", "op add(y,y) >> y"),
        ("Transfer", "transfer cpu:y >> y"),
    ]


def test_whoever_stops_at_the_operator_sees_its_results(environment: Environment) -> None:
    with executor(SMALL, "box", environment) as box:
        box.insert(x=[1.0, 2.0])
        seen = [run.fetch("y").tolist() for run in box.iterate() if run.event.op_name in ("mul", "add")]
    assert seen == [[2.0, 4.0], [4.0, 8.0], [8.0, 16.0]]


def test_a_breakpoint_stops_at_the_operator_that_makes_an_infinity(environment: Environment) -> None:
    with executor(SMALL, "box", environment) as box:
        inspector = Inspector(box, [NonFiniteBreakpoint()])
        inspector.begin(x=[1e308, 2.0])
        stop = inspector.resume()
    assert stop is not None
    assert stop.event is not None
    assert stop.event.node_desc == "op mul(x,d) >> y"


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("OPENINFER_TRACE", "full")
        logs.read_environment()
        yield
    logs.read_environment()


def warnings(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capsys.readouterr().err.splitlines() if "[WARNING]" in line]


@pytest.mark.rule("runtime.devices.5")
def test_it_is_logged_once_for_each_statement_and_not_in_every_step(
    environment: Environment, reported: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with executor(SMALL, "box", environment, trace=False) as box:
        for _ in range(3):
            box.step(x=[1.0, 2.0])
    found = warnings(capsys)
    assert ["has no mul for f64: it runs on cpu" in line for line in found] == [True, False]
    assert "has no add for f64: it runs on cpu" in found[1]


@pytest.mark.rule("language.hints.4")
def test_hints_still_change_nothing_unless_that_is_requested(environment: Environment) -> None:
    text = SMALL.replace("op neg(z) >> z;", 'op neg(z) >> z with { placement = "cpu" };')
    moved = {}
    for placement in (False, True):
        with executor(text, "box", environment, trace=True, placement=placement) as box:
            box.step(x=[1.0, 2.0])
            moved[placement] = [event.node_desc for event in box.trace() if event.kind == "Transfer"]
    assert "transfer z >> cpu:z" not in moved[False]
    assert moved[True].count("transfer z >> cpu:z") == 2


def test_an_operator_that_is_placed_on_the_device_falls_back_to_that_of_the_program(environment: Environment) -> None:
    text = SMALL.replace("block entry {", 'block entry with { placement = "box" } {')
    with executor(text, "cpu", environment, trace=True, placement=True) as cpu:
        cpu.step(x=[1.0, 2.0])
        moved = [event.node_desc for event in cpu.trace() if event.kind == "Transfer"]
        assert moved == ["transfer z >> box:z", "transfer box:z >> z"] * 2
        assert cpu.fetch("y").tolist() == [8.0, 16.0]


LEFT: dict[str, tuple[str, dict[str, Any]]] = {
    "a result is left out": (
        """dynamic { x: f64[3]; h: f64[2]; } constant { w: f64[8, 3] @init(0.5); r: f64[8, 2] @init(0.25); }
        volatile { y: f64[2]; } block entry { op lstm_cell(x, h, h, w, r) >> y; return y; }""",
        {"x": [1.0, -2.0, 0.5], "h": [0.5, 1.0]},
    ),
    "a setting is read late": (
        """dynamic { x: f64[2, 2]; s: f64[2]; e: f32; } volatile { y: f64[2, 2]; }
        block entry { op rms_norm(x, s, eps=e) >> y; return y; }""",
        {"x": [[1.0, 2.0], [-3.0, 4.0]], "s": [1.0, 0.5], "e": 0.25},
    ),
    "an axis is read late": (
        """dynamic { x: f64[2, 2]; a: i32; } volatile { y: f64[2, 2]; }
        block entry { op layer_norm(x, axis=a) >> y; return y; }""",
        {"x": [[1.0, 2.0], [-3.0, 4.0]], "a": 1},
    ),
}


@pytest.mark.parametrize("left", LEFT)
def test_an_operator_whose_parts_are_left_to_cpu_falls_back_whole(left: str, environment: Environment) -> None:
    text, given = LEFT[left]
    with executor(text, "box", environment) as box, executor(text, "cpu", environment) as cpu:
        for _ in range(2):
            box.step(**given)
            cpu.step(**given)
        assert np.array_equal(box.fetch("y"), cpu.fetch("y"))


def test_without_a_device_to_fall_back_to_it_is_an_error_before_running(environment: Environment) -> None:
    with pytest.raises(ValidationError) as caught:
        executor(SMALL, "chest", environment)
    assert [(each.code, each.message) for each in caught.value.diagnostics] == [
        ("kernel-missing", "chest has no mul for f64"),
        ("kernel-missing", "chest has no add for f64"),
    ]


@pytest.mark.rule("runtime.devices.5")
def test_a_device_to_fall_back_to_that_cannot_be_used_here_is_an_error_that_says_why(environment: Environment) -> None:
    cpu = replace(environment.devices["cpu"], probe="example_box:absent")
    without = replace(environment, devices={**environment.devices, "cpu": cpu})
    with pytest.raises(DeviceError) as caught:
        executor(SMALL, "box", without)
    assert caught.value.code == "device-unavailable"
    assert str(caught.value) == (
        "`op mul(x,d) >> y` in block `entry` falls back to `cpu`: "
        "device cpu cannot be used here: it has gone; bring it back"
    )
    text = "volatile { y: f32[2]; } block entry { op neg(y) >> y; return y; }"
    executor(text, "box", without).close()


WIDENED = "volatile { y: i32[2] @init(-8); } block entry { op relu(y, negative_slope=2) >> y; return y; }"
"""Its expression computes in 64-bit integers, whatever the types outside are."""


@pytest.mark.rule("runtime.devices.7")
def test_an_operator_that_needs_a_missing_feature_of_this_hardware_falls_back_too(
    environment: Environment, reported: None, capsys: pytest.CaptureFixture[str]
) -> None:
    with executor(WIDENED, "box", environment, trace=True) as box, executor(WIDENED, "cpu", environment) as cpu:
        for each in (box, cpu, box, cpu):
            each.step()
        assert box.fetch("y").tolist() == cpu.fetch("y").tolist()
        assert [event.kind for event in box.trace()] == ["Transfer", "OpExecute", "Transfer", "Return"] * 2
    (line,) = warnings(capsys)
    assert "block `entry` runs on cpu: this box does not support what an expression needs: 64-bit integers" in line


BOUND_LATE = {
    "entries by loop index": "loop l (i in 0..2) { op relu(w[i], negative_slope=2) >> y; op add(y, z) >> z; }",
    "what a read reshapes": "cache.write y >> K[t]; cache.increment t; cache.read K[] >> k; "
    "op relu(k, negative_slope=2) >> k; op sum_axis(k, axes=[0]) >> z;",
    "a setting from a variable": "op relu(y, negative_slope=slope) >> y; op add(y, z) >> z;",
    "in a consumer": "yield y; await y; op add(y, z) >> z;",
}


@pytest.mark.rule("runtime.devices.7")
@pytest.mark.parametrize("statements", BOUND_LATE.values(), ids=BOUND_LATE.keys())
def test_an_operator_that_is_bound_while_running_falls_back_for_a_feature_too(
    statements: str, environment: Environment, reported: None, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"""
    constant {{ w(l): i32[2] @pattern("w.{{l}}"); slope: i32 @init(3); }}
    volatile {{ y: i32[2] @init(-8); z: i32[2] @init(-1); k: i32[1, 2]; }}
    persistent {{ K(n): i32[2] @table; t: i64; }}
    block entry {{ {statements} return y, z; }}
    block consumer {{ await y; loop l (i in 0..2) {{ op relu(w[i], negative_slope=2) >> y; }} yield y; }}
    """
    model = oi.Model.from_arrays({f"w.{n}": np.array([n, -9], np.int32) for n in range(2)})
    values: list[list[Any]] = []
    for device in ("cpu", "box"):
        simulator = Simulator(model, graph(text), device=device, environment=environment, trace=True, echo=False)
        with simulator.make_executor() as made:
            for _ in range(3):
                made.step()
            values.append([made.fetch("y").tolist(), made.fetch("z").tolist()])
            values[-1].append([event.node_desc for event in made.trace()])
    assert values[0] == values[1]
    (line,) = [line for line in warnings(capsys) if "op relu" in line]
    assert "runs on cpu: this box does not support what an expression needs: 64-bit integers" in line


def test_a_feature_found_missing_while_running_is_an_error_of_the_step_when_strict(environment: Environment) -> None:
    text = """volatile { w(l): i32[2] @pattern("w.{l}"); y: i32[2]; }
    block entry { loop l (i in 0..2) { op relu(w[i], negative_slope=2) >> y; } return y; }"""
    model = oi.Model.from_arrays({f"w.{n}": np.array([n, -9], np.int32) for n in range(2)})
    simulator = Simulator(model, graph(text), device="box", environment=environment, strict=True)
    with simulator.make_executor() as made:
        for _ in range(2):
            with pytest.raises(FeatureMissingError, match="64-bit integers"):
                made.step()


def test_a_missing_feature_without_a_fallback_is_an_error(environment: Environment) -> None:
    with pytest.raises(ExecutionError, match="this box does not support what an expression needs") as caught:
        executor(WIDENED, "chest", environment)
    assert (caught.value.code, caught.value.block, caught.value.node_index) == ("kernel-missing", "entry", 0)


def test_a_missing_feature_is_an_error_when_strict(environment: Environment) -> None:
    with pytest.raises(FeatureMissingError, match="64-bit integers"):
        executor(WIDENED, "box", environment, strict=True)


def test_devices_are_compared_statement_by_statement(environment: Environment) -> None:
    with executor(WHOLE, "cpu", environment) as cpu, executor(WHOLE, "box", environment) as box:
        found = compare_executors((cpu, box), ("cpu", "box"), [inputs(step) for step in range(3)])
    check_comparisons([found])
    assert (found.divergence, found.steps) == (None, 3)
    assert found.largest["matmul"].nodes == 3 * 2


def test_a_difference_is_found_at_the_operator_that_fell_back(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    sound, binding = CpuBackend.bind_expression, [False]

    def bind(self: CpuBackend, expr: Any, given: Any, output: Any) -> Any:
        call = sound(self, expr, given, output)
        if not binding[0]:
            return call
        return lambda: (call(), np.add(output.array, 1, out=output.array))

    monkeypatch.setattr(CpuBackend, "bind_expression", bind)
    with executor(SMALL, "cpu", environment) as cpu:
        binding[0] = True
        with executor(SMALL, "box", environment) as box:
            found = compare_executors((cpu, box), ("cpu", "box"), [{"x": [1.0, 2.0]}])
    assert found.divergence is not None
    assert found.divergence.event is not None
    assert (found.divergence.event.node_desc, found.divergence.variable) == ("op mul(x,d) >> y", "y")


def test_the_other_device_is_closed_with_the_executor(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    monkeypatch.setattr(CpuBackend, "close", lambda self: closed.append(self.name))
    executor(SMALL, "box", environment).close()
    assert sorted(closed) == ["box", "cpu"]


def test_other_devices_are_closed_where_no_executor_comes_about(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    monkeypatch.setattr(CpuBackend, "close", lambda self: closed.append(self.name))
    text = """volatile { y: f64[2]; n: i32[2]; }
    block entry { op neg(y) >> y; op relu(n, negative_slope=2) >> n with { placement = "chest" }; return y; }"""
    with pytest.raises(ExecutionError, match="this box does not support"):
        executor(text, "box", environment, placement=True)
    assert sorted(closed) == ["box", "box", "cpu"]


class PairedBackend(NarrowBackend):
    """A box that another thread may have a second of."""

    def concurrent_backend(self) -> PairedBackend:
        return PairedBackend()


def test_what_consumers_opened_is_closed_where_another_cannot_be_bound(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []
    monkeypatch.setattr(sys.modules["example_box"], "Backend", PairedBackend)
    monkeypatch.setattr(PairedBackend, "close", lambda self: closed.append(self.name))
    text = """volatile { y: f32[2]; n: i32[2]; z: f32[2]; }
    block entry { yield y; yield n; await y; await n; return y; }
    block first { await y; op neg(y) >> z; yield y; }
    block second { await n; op relu(n, negative_slope=2) >> n; yield n; }"""
    with pytest.raises(ExecutionError, match="this box does not support"):
        executor(text, "chest", environment)
    assert closed == ["box"] * 3


def test_the_log_shows_types_of_transfers_and_settings_of_operators(
    environment: Environment, reported: None, capsys: pytest.CaptureFixture[str]
) -> None:
    text = """dynamic { x: f64[2]; } volatile { y: f64[1]; }
    block entry { op sum_axis(x, axes=[0], keepdims=true) >> y; return y; }"""
    with executor(text, "box", environment, trace=True) as box:
        box.step(x=[1.0, 2.0])
    lines = [line.partition("<text>:2 -- ")[2] for line in capsys.readouterr().err.splitlines() if "cpu:" in line]
    assert lines == ["transfer x >> cpu:x -- x: f64[2] -> cpu:x", "transfer cpu:y >> y -- cpu:y -> y: f64[1]"]


def test_the_conformance_kit_does_not_count_what_another_device_computes(environment: Environment) -> None:
    place = device_place("box", environment)
    plain = check_operator(environment.op("neg"), known_oracles()["neg"], place, environment, every=8)
    assert (plain["f32"].missing, plain["f32"].failures) == ("", ())
    assert (plain["f64"].ran, plain["f64"].missing) == (0, "box has no neg for f64")
    bent = check_operator(environment.op("relu"), known_oracles()["relu"], place, environment)
    assert "this box does not support what an expression needs" in bent["i32"].missing
    assert bent["i32"].ran
    assert not bent["i32"].failures
