"""What a plan says of RAM, flash and cycles on a device whose memories are listed."""

from __future__ import annotations

import numpy as np
import pytest

import openinfer as oi
from openinfer.estimate import estimate, estimate_text, plan_document

QUANTISED = """
dynamic { x: i8[1, 8, 4, 4]; }
volatile { y: i8[1, 6, 4, 4]; }
constant { w: i8[6, 8, 3, 3]; b: i32[6, 1, 1]; scale: f32[6, 1, 1]; one: f32 @init(1.0); zero: i8 @init(3); }
block entry {
  op conv_integer(x, w, padding=1) >> total;
  op add(total, b) >> biased;
  op cast(biased, to=f32) >> real;
  op mul(real, scale) >> scaled;
  op quantize_linear(scaled, one, zero_point=zero) >> y;
  return y;
}
"""
MACS = 4 * 4 * 6 * 8 * 9


def quantised(arch: str) -> oi.ExecutionPlan:
    numbers = np.random.default_rng(0)
    arrays = {
        "w": numbers.integers(-127, 128, (6, 8, 3, 3)).astype(np.int8),
        "b": numbers.integers(-99, 99, (6, 1, 1)).astype(np.int32),
        "scale": np.full((6, 1, 1), 0.01, np.float32),
    }
    return oi.Synthesizer(arch=arch).plan(oi.Model.from_arrays(arrays), QUANTISED)


@pytest.mark.parametrize("arch", ["cortex-m3", "cortex-m4", "rv32imc", "generic"])
def test_products_of_words_count_each_of_their_bytes(arch: str) -> None:
    estimated = estimate(quantised(arch))

    # Words are filled up with zeros where what a filter has in a row does not fill them, here three quarters.
    assert MACS <= estimated.macs <= 4 * MACS // 3


def test_cycles_are_counted_where_there_are_no_vectors() -> None:
    m4, m3, vectors = (estimate(quantised(arch)) for arch in ("cortex-m4", "cortex-m3", "x86-64-v3"))

    assert 0.5 * MACS < m4.cycles < m3.cycles < 10 * MACS
    assert vectors.cycles == 0


def test_cycles_of_floats_without_a_unit_are_those_of_calls() -> None:
    text = "dynamic { x: f32[64]; } volatile { y: f32[64]; } block entry { op mul(x, x) >> y; return y; }"
    soft, hard = (
        estimate(oi.Synthesizer(arch=arch).plan(oi.Model.from_arrays({}), text)).cycles
        for arch in ("cortex-m3", "cortex-m4")
    )

    assert soft - hard == 64 * 49


def test_the_plan_of_a_board_says_what_takes_most() -> None:
    plan = quantised("cortex-m4")

    lines = estimate_text(plan, estimate(plan)).splitlines()

    shrink = [line for line in lines if line.startswith("shrink")]
    assert "caller    128 bytes of inputs, 96 of outputs, in one of the memories" in lines
    assert [line.split()[1] for line in shrink] == ["RAM:", "flash:", "cycles:"]
    assert plan_document(plan, estimate(plan))["totals"]["cycles"] == estimate(plan).cycles


def test_floats_are_advised_to_be_quantised() -> None:
    model = oi.Model.from_arrays({"w": np.ones((64, 32), np.float32)})
    text = """
    dynamic { x: f32[1, 64]; } constant { w: f32[64, 32]; } volatile { y: f32[1, 32]; }
    block entry { op matmul(x, w) >> y; return y; }
    """
    plan = oi.Synthesizer(arch="cortex-m4").plan(model, text)

    printed = estimate_text(plan, estimate(plan))

    assert "flash: 8,192 bytes of weights are floats: `openinfer quantize` saves about 6,144" in printed
    assert "RAM: x (f32[1,64]), which is the caller's, takes 256 bytes" in printed


def test_ports_that_the_memories_have_no_room_for_are_warned_of() -> None:
    device = {"version": 2, "device": {"type": "cpu", "api": "c"}}
    memories = [{"name": "sram", "bytes": 300, "kind": "sram"}]
    text = """
    dynamic { x: f32[64]; } volatile { y: f32[2]; }
    block entry { op slice(x, axes=[0], starts=[0], ends=[2]) >> y; return y; }
    """

    warned = oi.Synthesizer(arch={**device, "memories": memories}).synthesize(oi.Model.from_arrays({}), text).warnings

    assert not warned
    memories[0]["bytes"] = 200
    (found,) = oi.Synthesizer(arch={**device, "memories": memories}).synthesize(oi.Model.from_arrays({}), text).warnings
    assert found.message == "inputs and outputs take 264 bytes, the memories of the device have 200 left"
