"""Operators of plugins that are defined by loop programs: on the devices cpu and c and in C without a kernel."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from offered_operators import environment_offering, same_type

import openinfer as oi
from openinfer.dsl import graph
from openinfer.loops.reading import parse_kernel
from openinfer.ops import InputSpec, Loops, OpSchema
from openinfer.plan.document import plan_json
from openinfer.plugins.coverage import coverage
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer

if TYPE_CHECKING:
    from openinfer.loops import Kernel
    from openinfer.ops.calls import OpCall
    from openinfer.plugins.environment import Environment

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler is installed")
DEVICES = ["cpu", pytest.param("c", marks=needs_compiler)]


def compact(call: OpCall) -> Kernel:
    """The elements that are not 0 in their order, and zeros after them; negative ones are refused.

    The name of its input is a word of C.
    """
    count, dtype = call.outputs[0].count, call.outputs[0].dtype
    zero = "0.0" if dtype.is_float else f"{dtype}(0)"
    return parse_kernel(f"""
def compact(long: GLOBAL[{dtype}, {count}], y: GLOBAL[{dtype}, {count}]):
    for i in SERIAL({count}):
        y[i] = {zero}
    filled: i64 = i64(0)
    for i in SERIAL({count}):
        fail(lt(long[i], {zero}), 'elements are not negative')
        is_kept: index[2] = cast(ne(long[i], {zero}), i64)
        if 0 <= is_kept - 1 < 1:
            place: index[{count}] = filled
            y[place] = long[i]
            filled = filled + i64(1)
""")


def too_short(call: OpCall) -> Kernel:
    return parse_kernel(f"def short(x: GLOBAL[f32, {call.outputs[0].count}], y: GLOBAL[f32, 1]):\n    y[0] = x[0]\n")


def out_of_bounds(call: OpCall) -> Kernel:
    count = call.outputs[0].count
    head = f"def shifted(x: GLOBAL[f32, {count}], y: GLOBAL[f32, {count}]):\n"
    return parse_kernel(f"{head}    for i in SERIAL({count}):\n        y[i] = x[i + 1]\n")


def with_scratch(call: OpCall) -> Kernel:
    count, dtype = call.outputs[0].count, call.outputs[0].dtype
    return parse_kernel(f"""
def wide(x: GLOBAL[{dtype}, {count}], y: GLOBAL[{dtype}, {count}]):
    work: PRIVATE[{dtype}, {1 << 40}]
    for i in SERIAL({count}):
        work[i] = x[i]
        y[i] = work[i]
""")


def environment_with(define: Any) -> Environment:
    schema = OpSchema(
        name="compact",
        summary="the elements that are not 0, and zeros after them",
        category="example",
        inputs=(InputSpec(name="x"),),
        dtypes=frozenset({"f32", "i32"}),
        in_place=True,
        infer=same_type,
        definition=Loops(define),
    )
    return environment_offering(schema)


PROGRAM = """
dynamic { x: f32[7]; }
volatile { y: f32[7]; }
block entry {
  assign t: f32[7];
  op relu(x) >> t;
  op compact(t) >> t;
  op add(t, t) >> y;
  return y;
}
"""
X = np.array([0, 2, -1, 0, 5, 1, 0], np.float32)


@pytest.mark.parametrize("device", DEVICES)
def test_an_operator_runs_from_its_loop_program(device: str) -> None:
    environment = environment_with(compact)
    simulator = Simulator(oi.Model.from_arrays({}), graph(PROGRAM), device=device, environment=environment)
    with simulator.make_executor() as executor:
        executor.step(x=X)
        np.testing.assert_array_equal(executor.outputs()["y"], [4, 10, 2, 0, 0, 0, 0])


@pytest.mark.parametrize("device", DEVICES)
def test_an_element_that_it_refuses_ends_the_step(device: str) -> None:
    text = PROGRAM.replace("op relu(x) >> t", "op neg(x) >> t")
    environment = environment_with(compact)
    simulator = Simulator(oi.Model.from_arrays({}), graph(text), device=device, environment=environment)
    with simulator.make_executor() as executor, pytest.raises(oi.OpenInferError) as raised:
        executor.step(x=X)
    assert raised.value.code == "out-of-range"


def test_plans_show_the_loop_program() -> None:
    environment = environment_with(compact)
    synthesis = Synthesizer("c", environment=environment).synthesize(oi.Model.from_arrays({}), graph(PROGRAM))
    steps = plan_json(synthesis.plan)["blocks"][0]["steps"]
    (found,) = [step for step in steps if step["kind"] == "compact"]
    assert "    filled: i64 = i64(0)" in found["loops"]


def test_coverage_says_what_carries_it_out() -> None:
    found = {
        (each.place, each.target): each.by
        for each in coverage(environment_with(compact), ["compact"])
        if each.dtype == "i32"
    }
    assert found["device", "cpu"] == found["device", "c"] == found["synth target", "c"] == "loops"
    assert found["device", "vulkan"] == "missing"


@pytest.mark.parametrize(
    ("define", "reason"),
    [
        (too_short, "y: GLOBAL[f32, 1] stands for f32"),
        (out_of_bounds, "x[i + 1] may lie outside of"),
    ],
)
def test_a_loop_program_that_does_not_fit_its_call_is_refused(define: Any, reason: str) -> None:
    listed = {status.name: status for status in environment_with(define).plugins}
    assert listed["third_party"].status.value == "failed"
    assert reason in listed["third_party"].reason


def test_a_buffer_that_c_cannot_hold_is_too_large_before_a_compiler_runs() -> None:
    environment = environment_with(with_scratch)
    with pytest.raises(oi.OpenInferError, match="buffer work of 1099511627776 f32 is too large") as raised:
        Synthesizer("c", environment=environment).synthesize(oi.Model.from_arrays({}), graph(PROGRAM))
    assert raised.value.code == "too-large"
