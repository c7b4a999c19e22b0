"""Operators of plugins that are defined by stages: on devices and in C without a kernel, and inside of fused plans."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from offered_operators import environment_offering, same_type

import openinfer as oi
from openinfer.affine import Index, Within
from openinfer.dsl import graph
from openinfer.dtypes import F32
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.ops import Compute, InputSpec, OpSchema, SettingSpec, SettingType
from openinfer.plugins.coverage import coverage
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer

if TYPE_CHECKING:
    from openinfer.compute import Builder
    from openinfer.ops.calls import OpCall
    from openinfer.plugins.environment import Environment

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")
DEVICES = ["cpu", pytest.param("c", marks=needs_compiler), "vulkan"]


@pytest.fixture
def device(request: pytest.FixtureRequest) -> str:
    """A device, where this machine has it."""
    if request.param == "vulkan":
        request.getfixturevalue("vulkan")
    return request.param


def local_response_norm(k: Builder, call: OpCall) -> None:
    """``y[n, c] = x[n, c] / sqrt(1 + sum of x[n, c + d]^2 for |d| <= reach)``."""
    (x,), (y,), reach = k.given, k.outputs, int(call.settings["reach"])
    n, c = k.axes(*y.shape)
    d = k.axis(2 * reach + 1)
    near = x.within(n, c + d - reach, fill=0.0)
    total = k.sum(near * near, over=(d,))
    y[n, c] = x[n, c] / k.apply(tree.sqrt, total + 1.0)


def wrong(k: Builder, call: OpCall) -> None:
    (x,), (y,) = k.given, k.outputs
    n, c = k.axes(*y.shape)
    y[n, c] = x[n, c + 1]


def diagonal(k: Builder, call: OpCall) -> None:
    """The diagonal of ``x``, stored over zeros."""
    (x,), (y,) = k.given, k.outputs
    rows, columns = (extent.evaluate({}) for extent in y.shape)
    i, j = k.axes(rows, columns)
    y[i, j] = k.constant(0, y.dtype)
    r = k.axis(min(rows, columns))
    y[r, r] = x[r, r]


def environment_with(define: Any) -> Environment:
    schema = OpSchema(
        name="lrn",
        summary="local response normalisation over neighbouring channels",
        category="example",
        inputs=(InputSpec(name="x", doc="[N, C]"),),
        settings=(SettingSpec(name="reach", type=SettingType.INT, default=1),),
        dtypes=frozenset({"f32", "f64"}),
        infer=same_type,
        definition=Compute(define),
    )
    return environment_offering(schema)


PROGRAM = """
dynamic { x: f32[3, 5]; gain: f32[5]; }
volatile { y: f32[3, 5]; }
block entry {
  assign t: f32[3, 5];
  op lrn(x, reach=2) >> t;
  op mul(t, gain) >> t;
  op relu(t) >> y;
  return y;
}
"""
X = np.random.default_rng(5).standard_normal((3, 5)).astype(np.float32)
GAIN = np.array([1.0, -2.0, 0.5, 3.0, -1.0], np.float32)


def expected() -> np.ndarray:
    squares = np.pad(X.astype(np.float64) ** 2, ((0, 0), (2, 2)))
    sums = sum(squares[:, d : d + 5] for d in range(5))
    return np.maximum(X / np.sqrt(1 + sums) * GAIN, 0)


@pytest.mark.parametrize("device", DEVICES, indirect=True)
def test_an_operator_runs_from_its_stages_alone(device: str) -> None:
    environment = environment_with(local_response_norm)
    simulator = Simulator(oi.Model.from_arrays({}), graph(PROGRAM), device=device, environment=environment)
    with simulator.make_executor() as executor:
        executor.step(x=X, gain=GAIN)
        np.testing.assert_allclose(executor.outputs()["y"], expected(), rtol=1e-6)


@needs_compiler
def test_operators_after_it_are_fused_into_its_loops() -> None:
    environment = environment_with(local_response_norm)
    synthesis = Synthesizer("c", environment=environment).synthesize(oi.Model.from_arrays({}), graph(PROGRAM))
    step, _return = synthesis.plan.procedures[-1].steps
    assert len(step.origin.statements) == 3
    assert synthesis.plan.arena_nbytes == 0


IN_PLACE = """
dynamic { x: f32[3, 5]; }
volatile { y: f32[3, 5]; }
block entry {
  assign total: f32[3, 5];
  assign t: f32[3, 5];
  op add(x, x) >> total;
  barrier;
  op lrn(x) >> t;
  op mul(t, total) >> total;
  barrier;
  op relu(total) >> y;
  return y;
}
"""


@pytest.mark.parametrize("device", DEVICES, indirect=True)
def test_what_is_stored_twice_is_not_fused_with_an_update_in_place(device: str) -> None:
    environment = environment_with(diagonal)
    simulator = Simulator(oi.Model.from_arrays({}), graph(IN_PLACE), device=device, environment=environment)
    with simulator.make_executor() as executor:
        executor.step(x=X)
        np.testing.assert_array_equal(executor.outputs()["y"], np.eye(3, 5, dtype="f4") * X * (X + X))


def test_coverage_says_what_carries_it_out() -> None:
    found = {
        (each.place, each.target): each.by
        for each in coverage(environment_with(local_response_norm), ["lrn"])
        if each.dtype == "f32"
    }
    assert found["device", "cpu"] == "computation"
    assert found["device", "c"] == "computation"
    assert found["synth target", "c"] == "computation"
    assert found["device", "vulkan"] == "computation"


def test_stages_that_read_outside_of_a_tensor_are_refused() -> None:
    listed = {status.name: status for status in environment_with(wrong).plugins}
    assert listed["third_party"].status.value == "failed"
    assert "reads x0 at i1 + 1 along dim 1, which may lie outside" in listed["third_party"].reason


def top_2_gating(k: Builder, call: OpCall) -> None:
    """Of the experts ``e`` the two with the greatest scores ``x[n, e]`` share 1 by softmax, the others get 0."""
    (x,), (y,) = k.given, k.outputs
    n, e = k.axes(*y.shape)
    f = k.axis(y.shape[1])
    is_before = k.apply(
        tree.logical_and, k.apply(tree.eq, x[n, f], x[n, e]), k.apply(tree.lt, k.position(f), k.position(e))
    )
    is_ahead = k.apply(tree.logical_or, k.apply(tree.gt, x[n, f], x[n, e]), is_before)
    ahead = k.temporary(F32, *y.shape)
    ahead[n, e] = k.sum(is_ahead.cast(F32), over=(f,))
    greatest = k.temporary(F32, y.shape[0])
    greatest[n] = k.fold(x[n, f], (f,), tree.maximum)
    share = k.temporary(F32, *y.shape)
    chosen = k.apply(tree.lt, ahead[n, e], k.constant(2, F32))
    share[n, e] = k.apply(tree.select, chosen, k.apply(tree.exp, x[n, e] - greatest[n]), k.constant(0, F32))
    total = k.temporary(F32, y.shape[0])
    total[n] = k.sum(share[n, f], over=(f,))
    y[n, e] = share[n, e] / total[n]


def conv1d_transpose(k: Builder, call: OpCall) -> None:
    """``y[o, j] = sum of x[c, i] * w[c, o, p] where 2 * i + p = j``."""
    (x, w), (y,) = k.given, k.outputs
    o, j = k.axes(*y.shape)
    c, p = k.axis(w.shape[0]), k.axis(w.shape[2])
    element = x.within(c, (j - p) // 2, fill=0.0, where=[Within((j - p) % 2, Index.of(1))])
    y[o, j] = k.sum(element * w[c, o, p], over=(c, p))


def gates(x: np.ndarray) -> np.ndarray:
    found = np.zeros_like(x)
    for row, scores in zip(found, x, strict=True):
        best = np.argsort(-scores, kind="stable")[:2]
        row[best] = np.exp(scores[best] - scores.max())
    return found / found.sum(axis=1, keepdims=True)


def spread(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    found = np.zeros((w.shape[1], 2 * (x.shape[1] - 1) + w.shape[2]))
    for i in range(x.shape[1]):
        found[:, 2 * i : 2 * i + w.shape[2]] += np.einsum("c,cop->op", x[:, i], w)
    return found


def offering(define: Any, infer: Any, *inputs: str) -> Environment:
    schema = OpSchema(
        name="third",
        summary="an operator of a third party",
        category="example",
        inputs=tuple(InputSpec(name=name, doc="a tensor") for name in inputs),
        dtypes=frozenset({"f32"}),
        infer=infer,
        definition=Compute(define),
    )
    return environment_offering(schema)


def run(program: str, environment: Environment, device: str, **arrays: np.ndarray) -> np.ndarray:
    simulator = Simulator(oi.Model.from_arrays({}), graph(program), device=device, environment=environment)
    with simulator.make_executor() as executor:
        executor.step(**arrays)
        return executor.outputs()["y"]


@pytest.mark.parametrize("device", DEVICES, indirect=True)
def test_a_gating_of_several_stages_needs_no_kernel(device: str) -> None:
    x = np.random.default_rng(6).standard_normal((4, 6)).astype(np.float32)
    x[1, 2:5] = x[1].max() + 1  # Of equal scores the first two count.
    program = """
dynamic { x: f32[4, 6]; }
volatile { y: f32[4, 6]; }
block entry { assign t: f32[4, 6]; op third(x) >> t; op mul(t, t) >> y; return y; }
"""

    found = run(program, offering(top_2_gating, same_type, "x"), device, x=x)

    np.testing.assert_allclose(found, gates(x) ** 2, rtol=1e-5)


@pytest.mark.parametrize("device", DEVICES, indirect=True)
def test_a_transposed_convolution_needs_no_kernel(device: str) -> None:
    generator = np.random.default_rng(6)
    x, w = (generator.standard_normal(shape).astype(np.float32) for shape in ((3, 5), (3, 2, 4)))
    program = """
dynamic { x: f32[3, 5]; w: f32[3, 2, 4]; }
volatile { y: f32[2, 12]; }
block entry { assign t: f32[2, 12]; op third(x, w) >> t; op relu(t) >> y; return y; }
"""

    def infer(inputs: Any, settings: Any, declared: Any) -> tuple[TensorType, ...]:
        x, w = inputs
        return (TensorType(x.dtype, (w.shape[1], 2 * (x.shape[1] - 1) + w.shape[2])),)

    found = run(program, offering(conv1d_transpose, infer, "x", "w"), device, x=x, w=w)

    np.testing.assert_allclose(found, np.maximum(spread(x, w), 0), rtol=1e-5, atol=1e-6)
