"""Whole programs on the device vulkan: what they compute, and what is said when they cannot run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.errors import DeviceError, ValidationError
from openinfer.plugins.environment import Environment
from openinfer.simulate import Simulator, logs

pytestmark = pytest.mark.usefixtures("vulkan")

DIGITS = Path(__file__).parents[2] / "examples" / "digits"

PERCEPTRON = """
dynamic { x: f32[B, I]; }
volatile {
  w1: f32[I, H]; b1: f32[H]; w2: f32[H, O]; b2: f32[O];
  y: f32[B, O]; p: f32[B, O]; best: i64[B];
}
block entry {
  assign h: f32[B, H];
  op linear(x, w1, bias=b1) >> h;
  op relu(h) >> h;
  op linear(h, w2, bias=b2) >> y;
  op softmax(y, axis=1) >> p;
  op argmax_axis(p, axis=1) >> best;
  return y, p, best;
}
"""


def normal(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_magnitudes_are_accumulated_in_64_bits() -> None:
    text = """
      dynamic { x: i8[5]; }
      volatile { y: i8[5]; z: f32[5]; }
      block entry { op abs(x, acc=[i64, i8]) >> y; op abs(x, acc=[i64, f32]) >> z; return; }
    """
    executor = Simulator(oi.Model.from_arrays({}), device="vulkan").make_executor(graph(text))
    executor.step(x=np.array([-128, -1, 0, 1, 127], np.int8))

    assert executor.fetch("y").tolist() == [127, 1, 0, 1, 127]
    assert executor.fetch("z").tolist() == [128.0, 1.0, 0.0, 1.0, 127.0]


@pytest.mark.rule("runtime.determinism.3")
def test_a_two_layer_perceptron_agrees_with_numpy_and_cpu() -> None:
    w1, b1, w2, b2, x = normal(64, 32), normal(32), normal(32, 10), normal(10), normal(17, 64, seed=1)
    model = oi.Model.from_arrays(
        {"w1": w1, "b1": b1, "w2": w2, "b2": b2}, sizevars={"B": 17, "I": 64, "H": 32, "O": 10}
    )
    logits = np.maximum(x.astype(np.float64) @ w1 + b1, 0) @ w2 + b2
    powers = np.exp(logits - logits.max(1, keepdims=True))
    results: dict[str, tuple[Any, ...]] = {}

    for device in ("vulkan", "cpu"):
        executor = Simulator(model, graph(PERCEPTRON), device=device).make_executor()
        executor.step(x=x)
        results[device] = executor.fetch("y", "p", "best")

    y, p, best = results["vulkan"]
    np.testing.assert_allclose(y, logits, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(p, powers / powers.sum(1, keepdims=True), rtol=2e-4, atol=1e-6)
    assert best.tolist() == logits.argmax(1).tolist()
    np.testing.assert_allclose(y, results["cpu"][0], rtol=1e-5, atol=1e-5)


def test_the_digit_recogniser_says_what_cpu_says() -> None:
    if not (DIGITS / "digits.oinf").exists():
        pytest.skip("the example digits is not there")
    images = np.load(DIGITS / "held_back.npz")["images"][:40].astype(np.float32).reshape(-1, 1, 1, 8, 8) / 16
    found: dict[str, list[Any]] = {}

    with oi.ModelLoader.open(DIGITS / "digits.oinf") as model:
        for device in ("cpu", "vulkan"):
            executor = Simulator(model, oi.load_graph(DIGITS / "digits.oi"), device=device).make_executor()
            found[device] = []
            for image in images:
                executor.step(image=image)
                found[device].append(executor.fetch("logits", "digit"))

    expected, logits = (np.stack([run[0] for run in found[device]]) for device in ("cpu", "vulkan"))
    assert np.abs(logits - expected).max() <= 1e-5 * np.abs(expected).max()
    assert [run[1].tolist() for run in found["vulkan"]] == [run[1].tolist() for run in found["cpu"]]


@pytest.mark.parametrize(
    "names",
    [
        ("int", "main", "void"),
        ("gl_x", "gl_Position", "gl_WorkGroupID"),
        ("a__b", "a_b", "__"),
        ("Value", "value", "VALUE"),
        ("target0", "source0", "parameters"),
        ("precise", "buffer", "oi_div_f32"),
    ],
)
def test_names_do_not_reach_the_shaders(names: tuple[str, str, str]) -> None:
    a, b, y = names
    text = (
        f"dynamic {{ {a}: f32[4]; {b}: f32[4]; }} volatile {{ {y}: f32[4]; }}\n"
        f"block entry {{ op add({a}, {b}) >> {y}; op div({y}, {b}) >> {y}; return; }}"
    )
    executor = Simulator(oi.Model.from_arrays({}), graph(text), device="vulkan").make_executor()

    executor.step(**{a: [1.0, 2.0, 3.0, 4.0], b: [1.0, 1.0, 1.0, 4.0]})

    assert executor.fetch(y).tolist() == [2.0, 3.0, 4.0, 2.0]


def test_state_is_kept_from_step_to_step() -> None:
    text = """
      dynamic { x: i32[3]; } persistent { s: i32[3] @init(5); }
      block entry {
        assign t: i32[3];
        cache.read s >> t; op add(t, x) >> t; cache.write t >> s; return t;
      }
    """
    executor = Simulator(oi.Model.from_arrays({}), graph(text), device="vulkan").make_executor()

    for number in range(1, 4):
        executor.step(x=[number, 10, 100])

    assert executor.fetch("s").tolist() == [11, 35, 305]


def test_values_can_be_fetched_between_nodes() -> None:
    text = (
        "dynamic { x: f32[2]; } volatile { y: f32[2]; } block entry { op add(x, x) >> y; op mul(y, y) >> y; return; }"
    )
    executor = Simulator(oi.Model.from_arrays({}), graph(text), device="vulkan").make_executor()
    executor.insert(x=[1.0, 2.0])

    seen = [node.fetch("y").tolist() for node in executor.iterate() if node.event.op_name in ("add", "mul")]

    assert seen == [[2.0, 4.0], [4.0, 16.0]]


@pytest.mark.rule("runtime.checks.11")
def test_what_the_device_does_not_support_is_named_before_anything_runs() -> None:
    known = Environment.default()
    poorer = replace(known.device("vulkan"), expression_dtypes=frozenset({"f32"}))
    offered = replace(known, devices={**known.devices, "vulkan": poorer})
    text = "dynamic { x: f16[2]; } volatile { y: f16[2]; } block entry { op exp(x) >> y; return; }"

    with pytest.raises(ValidationError) as caught:
        Simulator(oi.Model.from_arrays({}), graph(text), device="vulkan", environment=offered).make_executor()

    (finding,) = caught.value.diagnostics
    assert finding.code == "kernel-missing"
    assert "vulkan has no exp for f16" in finding.message


def test_a_device_number_that_is_not_there_is_an_error() -> None:
    with pytest.raises(DeviceError, match="there is no Vulkan device number 57"):
        Simulator(oi.Model.from_arrays({}), graph("block entry { return; }"), device="vulkan:57").make_executor()


@pytest.mark.rule("runtime.log.1")
def test_the_environment_asks_what_the_device_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = graph(
        "volatile { y: f32[3]; z: f32[3]; } block entry { op exp(y) >> y; op cumsum(y, axis=0) >> z; return; }"
    )
    reported = []
    for value in ("", "1"):
        with monkeypatch.context() as patch:
            patch.delenv("OPENINFER_TRACE", raising=False)
            patch.setenv("OPENINFER_VULKAN_TRACE", value)
            logs.read_environment()
            with Simulator(oi.Model.from_arrays({}), program, device="vulkan").make_executor() as ex:
                ex.step()
        logs.read_environment()
        reported.append(capsys.readouterr().err.splitlines())
    silent, lines = reported
    assert silent == []
    assert all("[VK_TRACE] -- " in line for line in lines)
    assert " as vulkan" in lines[0]
    assert len([line for line in lines if "-- pipeline " in line]) >= 2
