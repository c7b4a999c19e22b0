"""One plan for all sizes of steps within their limits, on devices that run such plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.errors import ShapeError
from openinfer.simulate.devices import binding
from openinfer.simulate.execute import sized_programs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from openinfer.simulate.execute.futures import StepFuture
    from openinfer.simulate.state.snapshot import Snapshot

program_calls = pytest.importorskip("openinfer_synth_c.program_calls", reason="openinfer-synth-c is not installed")

SIZES = {"T": 1, "S": 2}
LIMITS = {"T": 5, "t": 64}
DECODER = """
dynamic { x: f32[T, 2]; w: f32[S] @init(1.0); }
volatile { y: f32[T, 2]; v: f32[S]; }
persistent { K(t): f32[2] @table; step: i32; sum: f32[2]; }
block entry {
  cache.read step >> at;
  cache.write x >> K[at..at+T];
  cache.increment T step;
  cache.read K[0..at+T] >> past;
  op sum_axis(past, axes=[0]) >> total;
  cache.write total >> sum;
  op mul(x, total) >> y;
  op neg(w) >> v;
  return y, total, v;
}
"""
STATELESS = """
dynamic { x: f32[T]; bias: f32[5]; }
volatile { y: f32[T]; z: f32[5]; }
block entry { op neg(x) >> y; op add(y, bias) >> z; return z; }
"""


def executor(device: str, text: str = DECODER, limits: Mapping[str, int] = LIMITS) -> oi.Executor:
    model = oi.Model.from_arrays({}, sizevars={name: size for name, size in SIZES.items() if f"[{name}" in text})
    return oi.Simulator(model, text, device=device, limits=limits).make_executor()


def rows(length: int) -> np.ndarray:
    return np.arange(1, 2 * length + 1, dtype=np.float32).reshape(length, 2)


def assert_equal(cpu: oi.Executor, c: oi.Executor) -> None:
    expected, results = cpu.outputs(), c.outputs()
    for name, value in expected.items():
        np.testing.assert_array_equal(results[name], value)
    for name in ("K", "step", "sum"):
        np.testing.assert_array_equal(c.fetch(name), cpu.fetch(name))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was made for the device: plans and libraries."""
    names: list[str] = []
    for module, name in ((binding, "make_plan"), (program_calls, "load_library")):
        original = getattr(module, name)

        def counted(*arguments: Any, _name: str = name, _original: Callable[..., Any] = original) -> Any:
            names.append(_name)
            return _original(*arguments)

        monkeypatch.setattr(module, name, counted)
    return names


@pytest.mark.usefixtures("needs_device")
@pytest.mark.parametrize("device", ["c", "vulkan"])
def test_a_step_of_another_size_within_its_limit_makes_no_plan_and_compiles_nothing(
    device: str, made: list[str]
) -> None:
    with executor("cpu") as cpu, executor(device) as whole:
        for length in (5, 1, 2, 5, 2):
            for each in (cpu, whole):
                each.step(x=rows(length))
            assert whole.runs_whole
            np.testing.assert_array_equal(whole.outputs()["y"], cpu.outputs()["y"])
        assert_equal(cpu, whole)
    assert sorted(made) == (["load_library", "make_plan"] if device == "c" else ["make_plan"])


@pytest.mark.usefixtures("needs_device")
@pytest.mark.parametrize("device", ["vulkan"])
def test_steps_under_way_have_their_own_sizes_inputs_and_results(device: str, made: list[str]) -> None:
    with executor(device) as vulkan, executor("cpu") as cpu:
        futures: list[StepFuture] = []
        for length in (5, 1, 2, 5, 2):
            x = vulkan.input_buffer("x", (length, 2)) if length < 5 else rows(length)
            x[:] = rows(length)
            futures.append(vulkan.step_async(x=x))
        assert vulkan.runs_whole
        for length, future in zip((5, 1, 2, 5, 2), futures, strict=True):
            cpu.step(x=rows(length))
            for name, value in cpu.outputs().items():
                np.testing.assert_array_equal(future.result()[name], value)
        assert_equal(cpu, vulkan)
    assert made == ["make_plan"]


@pytest.mark.rule("runtime.sizes.9")
@pytest.mark.usefixtures("needs_device")
@pytest.mark.parametrize("device", ["c", "vulkan"])
def test_a_size_above_its_limit_is_refused_before_the_step(device: str) -> None:
    with executor("cpu") as cpu, executor(device) as whole:
        with pytest.raises(ShapeError, match="size `T` is 6, and its limit is 5") as refused:
            whole.step(x=rows(6))
        assert refused.value.code == "insert-mismatch"
        for each in (cpu, whole):
            each.step(x=rows(5))
        assert_equal(cpu, whole)


@pytest.mark.usefixtures("needs_device")
@pytest.mark.parametrize("device", ["c", "vulkan"])
def test_the_state_is_one_with_that_of_other_plans_of_nodes_and_of_the_host(device: str) -> None:
    cpu, c = executor("cpu"), executor(device)
    snapshots: list[Snapshot] = []
    for each in (cpu, c):
        each.step(x=rows(2))
        each.step(x=rows(3), w=np.ones(4, np.float32))  # S has no limit: a plan of its own
        each.step(x=rows(1))
        each.insert(x=rows(4))
        list(each.iterate())
        snapshots.append(each.snapshot())
        each.step(x=rows(5))
    assert_equal(cpu, c)
    for each, snapshot in zip((cpu, c), snapshots, strict=True):
        each.restore(snapshot)
        each.step(x=rows(2))
        each.restore({"sum": np.zeros(2, np.float32)})
        each.step(x=rows(1))
    assert_equal(cpu, c)
    for each in (cpu, c):
        each.reset()
        each.step(x=rows(3))
    assert_equal(cpu, c)


@pytest.mark.parametrize(("most", "count"), [(5, 1), (6, 2)])
def test_a_program_that_does_not_fit_its_limits_has_a_plan_for_each_size(
    most: int, count: int, made: list[str]
) -> None:
    c, bias = executor("c", STATELESS, {"T": most}), np.arange(5, dtype=np.float32)
    for length in (5, 1, 5):
        c.step(x=np.full(length, 2, np.float32), bias=bias)
        assert c.runs_whole
        np.testing.assert_array_equal(c.outputs()["z"], bias - 2)
    assert made.count("load_library") == count
    np.testing.assert_array_equal(c.fetch("y"), np.full(5, -2))


def test_limits_that_take_much_memory_are_left_to_plans_for_each_size(
    monkeypatch: pytest.MonkeyPatch, made: list[str]
) -> None:
    monkeypatch.setattr(sized_programs, "MOST_NBYTES", 64)
    cpu, c = executor("cpu"), executor("c")
    for length in (2, 1):
        for each in (cpu, c):
            each.step(x=rows(length))
    assert_equal(cpu, c)
    assert made.count("load_library") == 2
