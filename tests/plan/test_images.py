"""Images of convolutions: in bands where memory would take their time, and without products with their borders."""

from __future__ import annotations

import numpy as np
import pytest

import openinfer as oi
from openinfer.loops import verify
from openinfer.plan.execution_plan import ExecutionPlan
from openinfer.plan.programs import loop_program
from openinfer.plan.steps import ComputeStep
from openinfer.plan.values import ArenaMemory


def plan(channels: int, side: int, arch: str) -> ExecutionPlan:
    """Return the plan of a depthwise convolution of 3x3 over an image of the caller."""
    shape = f"f32[1, {channels}, {side}, {side}]"
    program = f"""
dynamic {{ x: {shape}; }}
constant {{ w: f32[{channels}, 1, 3, 3]; b: f32[{channels}]; }}
block entry {{
  assign y: {shape};
  op conv2d(x, w, b, padding=1, groups={channels}) >> y;
  return y;
}}
"""
    weights = {"w": np.ones((channels, 1, 3, 3), np.float32), "b": np.ones(channels, np.float32)}
    return oi.Synthesizer("c", arch=arch).synthesize(oi.Model.from_arrays(weights), oi.graph(program)).plan


def computations(found: ExecutionPlan) -> list[ComputeStep]:
    return [step for step in found.procedures[-1].steps if isinstance(step, ComputeStep)]


def test_an_image_that_the_caches_do_not_hold_gets_its_border_one_channel_at_a_time() -> None:
    found = plan(32, 64, "x86-64-v4")

    (step,) = computations(found)
    assert step.op == "border+conv2d"
    assert [(loop.axis.extent, loop.step) for loop in step.arrangement.fusion] == [(32, 1)]
    (bordered,) = step.temporaries
    assert isinstance(found.values[bordered].memory, ArenaMemory)
    assert found.values[bordered].stored.shape == (66 * 66,)
    assert verify(loop_program(step)).guarded == 0


@pytest.mark.parametrize(
    ("channels", "side", "reason"),
    [
        (2, 32, ""),
        (32, 16, "bands save no 10% of the time"),
    ],
    ids=["fits the first cache", "saves too little"],
)
def test_what_is_not_worth_its_source_stays_apart(channels: int, side: int, reason: str) -> None:
    border, convolution = computations(plan(channels, side, "x86-64-v3"))

    assert (border.op, convolution.op) == ("border", "conv2d")
    assert border.stored == reason


@pytest.mark.parametrize("weight", [1.0, np.inf, np.nan])
def test_products_with_the_border_are_left_out_where_weights_are_finite(weight: float) -> None:
    weights = {"w": np.full((8, 8, 3, 3), weight, np.float32), "b": np.zeros(8, np.float32)}
    program = """
dynamic { x: f32[1, 8, 8, 8]; }
constant { w: f32[8, 8, 3, 3]; b: f32[8]; }
block entry {
  assign t: f32[1, 8, 8, 8];
  assign y: f32[1, 8, 8, 8];
  op relu(x) >> t;
  op conv2d(t, w, b, padding=1) >> y;
  return y;
}
"""
    found = oi.Synthesizer("c", arch="x86-64-v3").synthesize(oi.Model.from_arrays(weights), oi.graph(program)).plan

    (convolution,) = [step for step in computations(found) if "conv2d" in step.op]
    assert (convolution.arrangement.schedules[-1].skip is not None) is bool(np.isfinite(weight))


@pytest.mark.parametrize(("side", "row"), [(112, 144), (32, 34)], ids=["long rows", "short rows"])
def test_long_rows_after_a_border_begin_at_cache_lines(side: int, row: int) -> None:
    found = plan(1, side, "x86-64-v4")

    (bordered,) = [value for value in found.values if value.name == "x.bordered"]
    assert bordered.stored.shape == ((side + 2) * row,)


@pytest.mark.parametrize(("channels", "stored"), [(512, 528), (256, 256)], ids=["two sets", "four sets"])
def test_neighbouring_places_of_an_image_lie_in_more_than_two_sets_of_the_first_cache(
    channels: int, stored: int
) -> None:
    program = f"""
dynamic {{ x: f32[1, 4, 6, 6]; }}
constant {{ w: f32[{channels}, 4, 3, 3]; b: f32[{channels}]; v: f32[8, {channels}, 1, 1]; c: f32[8]; }}
block entry {{
  assign t: f32[1, {channels}, 4, 4];
  assign y: f32[1, 8, 4, 4];
  op conv2d(x, w, b) >> t;
  op conv2d(t, v, c) >> y;
  return y;
}}
"""
    shapes = {"w": (channels, 4, 3, 3), "b": (channels,), "v": (8, channels, 1, 1), "c": (8,)}
    weights = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    found = oi.Synthesizer("c", arch="x86-64-v4").synthesize(oi.Model.from_arrays(weights), oi.graph(program)).plan

    (between,) = [value for value in found.values if value.name == "t"]
    assert between.stored.shape == (16 * stored,)


@pytest.mark.parametrize(("outputs", "has_border"), [(8, False), (1, True)], ids=["channels", "columns in lanes"])
def test_an_image_has_no_border_where_windows_leave_out_what_lies_past_it(outputs: int, has_border: bool) -> None:
    program = f"""
dynamic {{ x: f32[1, 3, 96, 96]; }}
constant {{ w: f32[{outputs}, 3, 3, 3]; b: f32[{outputs}]; v: f32[8, {outputs}, 1, 1]; c: f32[8]; }}
block entry {{
  assign t: f32[1, {outputs}, 48, 48];
  assign y: f32[1, 8, 48, 48];
  op conv2d(x, w, b, stride=2, padding=[0, 0, 1, 1]) >> t;
  op conv2d(t, v, c) >> y;
  return y;
}}
"""
    shapes = {"w": (outputs, 3, 3, 3), "b": (outputs,), "v": (8, outputs, 1, 1), "c": (8,)}
    weights = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    found = oi.Synthesizer("c", arch="x86-64-v4").synthesize(oi.Model.from_arrays(weights), oi.graph(program)).plan

    assert any("border" in step.op for step in computations(found)) is has_border
