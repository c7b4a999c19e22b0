"""Elements of 64 bits on the device vulkan: stored and moved by it, computed by cpu."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.errors import ExecutionError
from openinfer.inspect.divergence import check_comparisons, compare_executors
from openinfer.plugins.coverage import coverage
from openinfer.plugins.environment import Environment
from openinfer.simulate import Executor, Simulator

pytestmark = pytest.mark.usefixtures("vulkan")

TYPES = ("f64", "i64", "u64")
FEATURES = ("shaderInt64", "shaderFloat64")
MODEL = oi.Model.from_arrays(
    {"w": np.linspace(-1, 1, 6).reshape(2, 3), "k": np.array([2**62, -(2**40), 3]), "f": np.ones(3, np.float32)}
)


def executor(text: str, device: str = "vulkan", *, trace: bool = False) -> Executor:
    return Simulator(MODEL, graph(text), device=device, trace=trace, echo=False).make_executor()


MOVED = """
dynamic {{ x: {0}[3]; at: i64; }}
volatile {{ y: {0}[3]; z: {0}[1, 3]; one: {0} @init({1}); }}
persistent {{ s: {0}[3] @init({1}); K(t): {0}[3] @table; A(i): {0}[2] @auto_dim(i); n: {0}; m: i64; }}
block entry {{
  assign t: {0}[3];
  transfer x >> t;
  transfer t >> y;
  cache.read s >> t;
  cache.write x >> s;
  cache.write t >> K[m];
  cache.write y >> K[m + 1];
  cache.read K[] >> z;
  cache.increment 3 n;
  cache.increment m;
  cache.reset A;
  loop turns (i in 0..at) {{ cache.increment 2 n; }}
  return y, z;
}}
"""


@pytest.mark.parametrize("dtype", TYPES)
def test_elements_are_stored_and_moved_by_the_device_itself(dtype: str) -> None:
    kind = {"f64": np.float64, "i64": np.int64, "u64": np.uint64}[dtype]
    values = np.array([0.1, -1e300, 3] if dtype == "f64" else [2**63 - 1, 2**53 + 1, 5]).astype(kind)
    with executor(MOVED.format(dtype, "2.0" if dtype == "f64" else "2"), trace=True) as vulkan:
        for _ in range(2):
            vulkan.step(x=values, at=2)
        assert vulkan.fetch("y").tobytes() == values.tobytes()
        assert vulkan.fetch("s").tobytes() == values.tobytes()
        assert vulkan.fetch("K[]").tolist() == [[2, 2, 2], values.tolist(), values.tolist()]
        assert vulkan.fetch_raw("z").array.tolist() == vulkan.fetch("K[]").tolist()
        assert (vulkan.fetch("n"), vulkan.fetch("one"), vulkan.fetch("m")) == (14, 2, 2)
        moved = [event.node_desc for event in vulkan.trace() if event.kind == "Transfer"]
    assert moved == ["transfer x >> t", "transfer t >> y"] * 2


COMPUTED = """
dynamic { x: f64[2, 3]; n: i64[3]; u: u64[3]; }
constant { w: f64[2, 3]; k: i64[3]; f: f32[3]; }
volatile { y: f64[2, 3]; m: i64[3]; v: u64[3]; p: f32[2, 3]; best: i64[2]; sums: f64[2]; g: f32[3]; found: bool[3]; }
persistent { s: f64[2, 3]; }
block entry {
  assign h: f64[2, 3];
  op div(x, w) >> h;
  op exp(h) >> h;
  op softmax(h, axis=1) >> y;
  op sum_axis(y, axes=[1]) >> sums;
  op cast(y, to=f32) >> p;
  op argmax_axis(p, axis=1) >> best;
  op floor_div(k, n) >> m;
  op mul(m, n) >> m;
  op shr(u, bits=3) >> v;
  op le(m, k) >> found;
  op add(f, f) >> g;
  cache.read s >> h;
  op add(h, y) >> h;
  cache.write h >> s;
  return;
}
"""


def inputs(step: int) -> dict[str, Any]:
    rng = np.random.default_rng(step)
    n = rng.integers(-(2**40), 2**40, 3)
    return {"x": rng.normal(size=(2, 3)), "n": n, "u": rng.integers(0, 2**63, 3).astype(np.uint64)}


@pytest.mark.rule("runtime.devices.6")
def test_arithmetic_on_them_is_what_cpu_computes_bit_for_bit() -> None:
    with executor(COMPUTED) as vulkan, executor(COMPUTED, "cpu") as cpu:
        for step in range(3):
            vulkan.step(**inputs(step))
            cpu.step(**inputs(step))
            for name in ("y", "sums", "best", "m", "v", "found", "s"):
                assert vulkan.fetch(name).tobytes() == cpu.fetch(name).tobytes(), name
            assert vulkan.fetch("g").tolist() == [2.0, 2.0, 2.0]


def test_what_the_device_can_do_stays_there() -> None:
    with executor(COMPUTED, trace=True) as vulkan:
        vulkan.step(**inputs(0))
        moved = {event.node_index for event in vulkan.trace() if event.kind == "Transfer"}
        stayed = [e.op_name for e in vulkan.trace() if e.kind == "OpExecute" and e.node_index not in moved]
    assert stayed == ["argmax_axis", "add"]


def test_the_devices_agree_statement_by_statement() -> None:
    with executor(COMPUTED, "cpu") as cpu, executor(COMPUTED) as vulkan:
        found = compare_executors((cpu, vulkan), ("cpu", "vulkan"), [inputs(step) for step in range(2)])
    check_comparisons([found])
    assert (found.largest["floor_div"].nodes, found.largest["exp"].absolute) == (2, 0.0)


@pytest.mark.rule("runtime.devices.7")
def test_hardware_without_wide_integers_leaves_operators_to_cpu_that_need_them_inside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "dynamic { x: i32[2, 2]; } volatile { y: i32[2]; } block entry { op mean_axis(x, axes=[1]) >> y; return; }"
    moved: list[list[str]] = []
    for features in ((), FEATURES):
        monkeypatch.setattr("openinfer_backend_vulkan.api.physical.FEATURES", features)
        with executor(text, trace=True) as vulkan:
            vulkan.step(x=np.full((2, 2), 2**31 - 1, np.int32))
            assert vulkan.fetch("y").tolist() == [2**31 - 1] * 2
            moved.append([event.node_desc for event in vulkan.trace() if event.kind == "Transfer"])
    assert moved == [["transfer x >> cpu:x", "transfer cpu:y >> y"], []]


def test_hardware_without_wide_integers_leaves_operators_to_cpu_that_are_bound_while_running(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = """dynamic { x: i32[2, 2]; axis: i32; } volatile { y: i32[2]; }
    block entry { op mean_axis(x, axes=[axis]) >> y; return; }"""
    monkeypatch.setattr("openinfer_backend_vulkan.api.physical.FEATURES", ())
    with executor(text) as vulkan:
        for axis, expected in ((1, [1, 4]), (0, [2, 3]), (1, [1, 4])):
            vulkan.step(x=np.array([[0, 2], [4, 4]], np.int32), axis=axis)
            assert vulkan.fetch("y").tolist() == expected


def test_no_cell_of_cpu_counts_as_the_device_s_own() -> None:
    every = coverage(Environment.default(), ["add", "exp"])
    rows = [row for row in every if (row.place, row.target) == ("device", "vulkan")]
    assert {row.by for row in rows if row.dtype in TYPES} == {"fallback"}
    assert all(row.reason.endswith(": it runs on cpu") for row in rows if row.dtype in TYPES)


@pytest.mark.parametrize(
    ("call", "inputs"),
    [
        ("pow(n, e)", {"e": np.array([2, -1, 0])}),
        ("cast(x, to=t1, saturate=false)", {"x": np.array([1.0, 0.25, -3.0])}),
        ("gather(x, e)", {"e": np.array([0, 3, 1])}),
    ],
)
def test_elements_that_have_no_result_are_errors_there_too(call: str, inputs: dict[str, Any]) -> None:
    result = {"p": "i64", "c": "t1", "g": "f64"}[call[0]]
    legal = {"x": np.array([1.0, 2.0, -3.0]), "n": np.array([2, 3, -5]), "e": np.array([2, 1, 0])}
    with executor(
        f"dynamic {{ x: f64[3]; n: i64[3]; e: i64[3]; }} volatile {{ y: {result}[3]; }}"
        f" block entry {{ op {call} >> y; return; }}"
    ) as vulkan:
        vulkan.step(**legal)
        with pytest.raises(ExecutionError) as caught:
            vulkan.step(**(legal | inputs))
    assert caught.value.code == "out-of-range"
