"""Device c: steps of programs compiled and called in this process."""

from __future__ import annotations

import shutil

import ml_dtypes
import numpy as np
import pytest

from openinfer.dsl import graph
from openinfer.errors import DeviceError, ExecutionError
from openinfer.model import Model
from openinfer.simulate import Simulator
from openinfer_synth_c.device import CDevice

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


def outputs(device, **given):
    with Simulator(model(), graph(PROGRAM), device=device).make_executor() as executor:
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
    for device in ("cpu", "c"):
        with Simulator(model(), graph(PROGRAM), device=device).make_executor() as executor:
            executor.insert(inputs())
            seen[device] = [(run.event.node_desc, run.fetch("m").tolist()) for run in executor.iterate()]

    assert seen["c"] == seen["cpu"]
    assert len(seen["c"]) > 10


@needs_compiler
def test_events_are_those_of_the_device_cpu():
    traces = {}
    for device in ("cpu", "c"):
        simulator = Simulator(model(), graph(PROGRAM), device=device, trace=True, echo=False)
        with simulator.make_executor() as executor:
            executor.step(**inputs())
            traces[device] = [(event.kind, event.node_desc, event.params) for event in executor.trace()]

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


@needs_compiler
def test_low_floats_are_fetched_as_their_own_type():
    text = "dynamic { x: bf16[2]; } volatile { y: bf16[2]; } block entry { op add(x, x) >> y; return y; }"

    with Simulator(Model.from_arrays({}), graph(text), device="c").make_executor() as executor:
        executor.step(x=np.array([1.5, -2.0], ml_dtypes.bfloat16))

        assert executor.fetch("y").dtype == ml_dtypes.bfloat16
        assert executor.fetch("y").tolist() == [3.0, -4.0]
