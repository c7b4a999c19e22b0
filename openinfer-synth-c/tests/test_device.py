"""Device c: steps of programs compiled and called in this process."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor

import ml_dtypes
import numpy as np
import pytest

from openinfer.dsl import graph
from openinfer.errors import DeviceError, DynamicUnsetError, ExecutionError, StepStateError, SynthesisError
from openinfer.model import Model
from openinfer.plugins.environment import Environment
from openinfer.simulate import Simulator
from openinfer.simulate.devices.programs import ProgramBackend
from openinfer.simulate.execute.whole_program import device_findings
from openinfer.validate import resolve
from openinfer_synth_c import device
from openinfer_synth_c.device import CDevice
from openinfer_synth_c.program_calls import bind_plan

needs_compiler = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")

PROGRAM = """
dynamic { x: f32[3, 4]; n: i4[5]; go: bool @init(true); }
volatile { w(l): f32[4, 4] @pattern("w.{l}"); y: f32[3, 4] @init(0.5); m: i4[5]; s: f32; b: bf16[3, 4]; }
block entry {
  assign t: f32[3, 4];
  op add(x, y) >> t;
  loop layers (l in 0..2) { op matmul(t, w[l]) >> t; op relu(t) >> t; }
  op sum_axis(t, axes=[0, 1]) >> s;
  branch go twice once;
  op cast(t, to=bf16) >> b;
  transfer t >> y;
  return y, m, s, b;
}
block twice { op add(n, n) >> m; return; }
block once { transfer n >> m; return; }
"""


def model():
    generator = np.random.default_rng(0)
    return Model.from_arrays({f"w.{n}": generator.normal(size=(4, 4)).astype(np.float32) for n in range(2)})


def inputs(**more):
    x = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
    return {"x": x, "n": np.array([1, 2, -3, 7, -8], np.int8), **more}


@needs_compiler
def test_a_program_that_the_device_refuses_is_refused_before_it_is_opened():
    text = """dynamic { x: f32[2]; share: f32; } volatile { y: f32[2]; }
    block entry { op relu(x, negative_slope=share) >> y; return y; }"""
    bound, offered = Model.from_arrays({}), Environment.default()
    simulator = Simulator(bound, device="c")

    resolved = resolve(graph(text), bound, environment=offered)
    (found,) = device_findings(resolved, bound, "c", offered)

    assert found.message.startswith("relu: setting 'alpha' depends on 'share'")
    with pytest.raises(SynthesisError) as refused:
        simulator.make_executor(graph(text))
    assert refused.value.diagnostics == (found,)
    assert device_findings(resolved, bound, "cpu", offered) == ()
    assert offered.devices["c"].whole_programs == isinstance(CDevice(), ProgramBackend)


def outputs(name, **given):
    with Simulator(model(), graph(PROGRAM), device=name).make_executor() as executor:
        executor.step(**given)
        return executor.outputs()


def assert_close(found, expected):
    assert list(found) == list(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(
            np.asarray(found[name], np.float64), np.asarray(value, np.float64), rtol=1e-2 if name == "b" else 1e-5
        )
        assert np.asarray(found[name]).dtype == np.asarray(value).dtype


@needs_compiler
@pytest.mark.parametrize("go", [True, False])
def test_steps_give_what_the_device_cpu_gives(go):
    given = inputs(go=go)

    found = outputs("c", **given)

    assert_close(found, outputs("cpu", **given))
    assert found["m"].tolist() == ([2, 4, -6, -2, 0] if go else [1, 2, -3, 7, -8])


@needs_compiler
def test_every_node_and_value_can_be_seen():
    seen = {}
    for name in ("cpu", "c"):
        with Simulator(model(), graph(PROGRAM), device=name).make_executor() as executor:
            executor.insert(inputs())
            seen[name] = [(run.event.node_desc, run.fetch("m").tolist()) for run in executor.iterate()]

    assert seen["c"] == seen["cpu"]
    assert len(seen["c"]) > 10


@needs_compiler
def test_events_are_those_of_the_device_cpu():
    traces = {}
    for name in ("cpu", "c"):
        simulator = Simulator(model(), graph(PROGRAM), device=name, trace=True, echo=False)
        with simulator.make_executor() as executor:
            executor.step(**inputs())
            traces[name] = [(event.kind, event.node_desc, event.params) for event in executor.trace()]

    assert traces["c"] == traces["cpu"]


@needs_compiler
def test_an_index_out_of_range_ends_the_step():
    text = """dynamic { at: i64; } volatile { w(l): f32[2] @pattern("w.{l}"); y: f32[2]; }
    block entry { op relu(w[at]) >> y; return y; }"""
    arrays = {"w.0": np.ones(2, np.float32), "w.1": np.zeros(2, np.float32)}

    with Simulator(Model.from_arrays(arrays), graph(text), device="c").make_executor() as executor:
        executor.step(at=1)
        assert executor.outputs()["y"].tolist() == [0.0, 0.0]
        with pytest.raises(ExecutionError, match=r"w\[7\].*w\.7"):
            executor.step(at=7)
        executor.step(at=0)
        assert executor.outputs()["y"].tolist() == [1.0, 1.0]


def test_no_compiler_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)

    with pytest.raises(DeviceError, match=r"device c cannot be used here: no C compiler found .*install") as caught:
        Simulator(model(), graph(PROGRAM), device="c")

    assert caught.value.code == "device-unavailable"


def test_there_is_one_device():
    with pytest.raises(DeviceError, match="there is one device c, number 0; found number 2"):
        CDevice(2)


@pytest.fixture
def whole_steps(monkeypatch):
    """Note the steps that are run whole, and whether each was done."""
    done = []

    def bind(plan, inputs, outputs):
        call = bind_plan(plan, inputs, outputs)
        return lambda: done.append(call()) or done[-1]

    monkeypatch.setattr(device, "bind_plan", bind)
    return done


@needs_compiler
def test_a_step_that_nobody_looks_into_is_one_call(whole_steps):
    with Simulator(model(), graph(PROGRAM), device="c").make_executor() as executor:
        for go in (True, False):
            event = executor.step(**inputs(go=go))
            found = executor.outputs()
            assert_close(found, outputs("cpu", **inputs(go=go)))
            assert executor.fetch("y").tolist() == found["y"].tolist()
            assert (event.kind, event.block_name, event.node_desc) == ("Return", "entry", "return y, m, s, b")

    assert whole_steps == [True, True]


INSIDE = """
dynamic { x: f32[3]; } volatile { a: f32[3]; y: f32[3]; }
block entry { op add(x, x) >> a; op add(a, x) >> y; return y; }
"""


@pytest.mark.rule("runtime.memory.14")
@needs_compiler
def test_a_value_that_is_not_a_result_is_there_when_requested(whole_steps):
    with Simulator(Model.from_arrays({}), graph(INSIDE), device="c").make_executor() as executor:
        executor.step(x=np.array([1, 2, 3], np.float32))
        assert executor.outputs()["y"].tolist() == [3, 6, 9]

        assert executor.fetch("a").tolist() == [2, 4, 6]

        assert executor.outputs()["y"].tolist() == [3, 6, 9]
        executor.step(x=np.array([10, 20, 30], np.float32))
        assert executor.fetch("a").tolist() == [20, 40, 60]
    assert whole_steps == [True]


@pytest.mark.rule("runtime.memory.14")
@needs_compiler
def test_a_value_whose_inputs_are_gone_is_refused():
    with Simulator(Model.from_arrays({}), graph(INSIDE), device="c").make_executor() as executor:
        executor.step(x=np.array([1, 2, 3], np.float32))
        executor.insert(x=np.array([4, 5, 6], np.float32))

        with pytest.raises(StepStateError, match="`a` is not a result of the program, which ran whole: fetch it"):
            executor.fetch("a")
        assert executor.fetch("y").tolist() == [3, 6, 9]
        assert executor.fetch("x").tolist() == [4, 5, 6]


@needs_compiler
def test_iterating_a_step_does_not_keep_the_next_from_being_run_whole(whole_steps):
    with Simulator(Model.from_arrays({}), graph(INSIDE), device="c").make_executor() as executor:
        executor.insert(x=np.array([1, 2, 3], np.float32))
        seen = [run.fetch("a").tolist() for run in executor.iterate()]
        assert seen[0] == [2, 4, 6]
        executor.step(x=np.array([4, 5, 6], np.float32))
        assert executor.outputs()["y"].tolist() == [12, 15, 18]

    assert whole_steps == [True]


@needs_compiler
def test_an_error_inside_a_whole_program_names_its_statement(whole_steps):
    text = """dynamic { at: i64; } volatile { w(l): f32[2] @pattern("w.{l}"); y: f32[2]; }
    block entry { op relu(w[at]) >> y; return y; }"""
    arrays = {"w.0": np.ones(2, np.float32), "w.1": np.zeros(2, np.float32)}

    with Simulator(Model.from_arrays(arrays), graph(text), device="c").make_executor() as executor:
        with pytest.raises(ExecutionError, match=r"the model tensor `w\.9`") as caught:
            executor.step(at=9)
        assert caught.value.block == "entry"
        with pytest.raises(DynamicUnsetError, match="`at` holds no value"):
            executor.step()
    assert whole_steps == [False]


@needs_compiler
def test_weights_that_are_handed_on_stay_as_they_are():
    weights = np.arange(3, dtype=np.float32)
    weights.flags.writeable = False
    text = """volatile { w: f32[3]; y: f32[3]; } block entry { op add(w, w) >> y; return w, y; }"""

    with Simulator(Model.from_arrays({"w": weights}), graph(text), device="c").make_executor() as executor:
        executor.step()

        assert executor.outputs()["w"].tolist() == [0, 1, 2]
        assert executor.fetch("y").tolist() == [0, 2, 4]


@needs_compiler
def test_executors_that_share_a_library_have_weights_of_their_own():
    text = """dynamic { x: f32[2]; } volatile { w: f32[2]; y: f32[2]; } block entry { op mul(x, w) >> y; return y; }"""
    x = np.array([1, 2], np.float32)
    executors = [
        Simulator(Model.from_arrays({"w": np.full(2, n, np.float32)}), graph(text), device="c").make_executor()
        for n in (3, 5)
    ]

    for executor, factor in [*zip(executors, (3, 5), strict=True)] * 2:
        executor.step(x=x)
        assert executor.outputs()["y"].tolist() == [factor, 2 * factor]


@needs_compiler
@pytest.mark.parametrize("by_node", [True, False], ids=["node by node", "whole"])
def test_executors_in_threads_do_not_meet_in_the_memory_of_a_library(by_node):
    program = graph("""
    dynamic { x: f32[9, 1500]; } volatile { y: f32[9, 1500]; places: i64[9, 1500]; }
    block entry { op topk(x, k=1500) >> y, places; return y; }
    """)
    simulator = Simulator(Model.from_arrays({}), program, device="c")

    def wrong_steps(seed):
        x = np.random.default_rng(seed).random((9, 1500), np.float32)
        expected = -np.sort(-x, axis=1)
        with simulator.make_executor() as executor:
            found = 0
            for _ in range(20):
                executor.insert(x=x)
                list(executor.iterate()) if by_node else executor.step()
                found += not np.array_equal(executor.fetch("y"), expected)
            return found

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(wrong_steps, range(4))) == [0] * 4


@needs_compiler
def test_a_program_without_results_may_run():
    text = "dynamic { x: f32[2]; } block entry { assign t: f32[2]; op relu(x) >> t; return; }"

    with Simulator(Model.from_arrays({}), graph(text), device="c").make_executor() as executor:
        executor.insert(x=np.array([-1, 2], np.float32))
        seen = [run.fetch("t").tolist() for run in executor.iterate() if run.event.op_name == "relu"]
        executor.step(x=np.array([-1, 2], np.float32))
        assert executor.outputs() == {}

    assert seen == [[0, 2]]


REFUSED = {
    "results of packed types with a shape of run time": (
        """dynamic { n: i32; } persistent { k(t): i4[2] @table @fixed(t=3); } volatile { y: i4[1, 2]; } block entry {
        cache.read k[0..n] >> y; return y; }""",
        "`y` is a result of packed i4, and its shape is known at run time only",
    ),
    "yield in a loop": (
        """volatile { y: f32[2]; } block entry { loop turns (i in 0..2) {
        yield y; }
        await y; return y; } block other { await y; op relu(y) >> y; yield y; }""",
        r":1:.*`y` is not taken back in the iteration of the loop that yields it",
    ),
}


@needs_compiler
@pytest.mark.parametrize("what", REFUSED)
def test_what_the_target_cannot_write_out_is_refused_by_name_and_line(what):
    text, message = REFUSED[what]
    simulator = Simulator(Model.from_arrays({}), graph(text), device="c")

    with pytest.raises(SynthesisError, match=message) as caught:
        simulator.make_executor()

    assert caught.value.code == "unsupported"


@needs_compiler
def test_select_takes_indices_that_are_known_at_run_time():
    text = """dynamic { x: f32[3, 2]; i: i64; } volatile { y: f32[2]; z: f32[2]; }
    block entry { loop turns (l in 0..2) { op select(x, axis=0, index=l) >> y; } op select(x, axis=0, index=i) >> z;
      return y, z; }"""

    with Simulator(Model.from_arrays({}), graph(text), device="c").make_executor() as executor:
        executor.step(x=np.arange(6, dtype=np.float32).reshape(3, 2), i=2)

        assert {name: value.tolist() for name, value in executor.outputs().items()} == {"y": [2, 3], "z": [4, 5]}


@needs_compiler
def test_low_floats_are_fetched_as_their_own_type():
    text = "dynamic { x: bf16[2]; } volatile { y: bf16[2]; } block entry { op add(x, x) >> y; return y; }"

    with Simulator(Model.from_arrays({}), graph(text), device="c").make_executor() as executor:
        executor.step(x=np.array([1.5, -2.0], ml_dtypes.bfloat16))

        assert executor.fetch("y").dtype == ml_dtypes.bfloat16
        assert executor.fetch("y").tolist() == [3.0, -4.0]


def test_a_range_from_zero_down_begins_at_positive_zero() -> None:
    program = graph("volatile { y: f32[2]; } block entry { op range(step=-1) >> y; return y; }")
    with Simulator(Model.from_arrays({}), program, device="c").make_executor() as executor:
        executor.step()
        y = executor.outputs()["y"]
    assert y.tolist() == [0.0, -1.0]
    assert np.signbit(y).tolist() == [False, True]


def test_a_rotation_without_rows_ends_the_step() -> None:
    program = graph("""
    dynamic { x: f32[2,4]; c: f32[0,2]; p: i64[2]; }
    volatile { y: f32[2,4]; }
    block entry { op rope_cached(x, c, c, pos=p) >> y; return y; }
    """)
    given = {"x": np.ones((2, 4), np.float32), "c": np.zeros((0, 2), np.float32), "p": np.zeros(2, np.int64)}
    with (
        Simulator(Model.from_arrays({}), program, device="c").make_executor() as executor,
        pytest.raises(ExecutionError, match="out of range"),
    ):
        executor.step(**given)
