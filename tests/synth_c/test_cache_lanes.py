"""Vector lanes along a length that is known at run time only: schedules, all tails, results as simulated."""

from __future__ import annotations

import numpy as np
import pytest
from generated_c import SANITISED, STRICT, needs_gcc, run_sanitised

from openinfer.dsl import graph
from openinfer.model import Model
from openinfer.plan.steps import ComputeStep
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer
from openinfer.synth.comparison import compare

FLAGS = {
    "generic": SANITISED,
    # Vector types are GNU C.
    "host": (*STRICT, "-std=gnu99", "-O1", "-march=native"),
}
STEPS = 70
"""Whole registers of 16 lanes, two and four of them at a time, and what is left of them."""

PROGRAM = """
dynamic { q: f32[1, D]; k: f32[H, D / H]; x: f32; }
volatile { y: f32[1, D]; p: f32; top: f32; rest: f32; scaled: f32; most: f32; }
persistent { n: i32; K(t): f32[H, D / H] @table; V(t): f32[H, D / H] @table; S(t): f32[] @table; }
block entry {
  cache.write k >> K[n];
  cache.write k >> V[n];
  cache.write x >> S[n];
  cache.increment n;
  cache.read K[0..n] >> keys;
  cache.read V[0..n] >> values;
  cache.read S[0..n] >> row;
  op attn(q, keys, values) >> y;
  op softmax(row) >> shares;
  op max_axis(shares) >> p;
  op max_axis(row) >> top;
  op exp(row) >> grown;
  op sum_axis(grown) >> rest;
  op mul(row, x) >> twice;
  op add(twice, row) >> twice;
  op sum_axis(twice) >> scaled;
  op min_axis(twice) >> most;
  return y, p, top, rest, scaled, most;
}
"""

pytestmark = needs_gcc


def varying_lanes(plan):
    """Return the axes of run-time extent that lanes lie along, by operator."""
    found = {}
    for step in plan.procedures[-1].steps:
        if isinstance(step, ComputeStep) and step.arguments:
            lanes = [schedule.lanes for schedule in step.arrangement.schedules]
            axes = [loop.axis for loop in lanes if loop is not None and not isinstance(loop.axis.extent, int)]
            found[step.op] = len(axes)
    return found


@pytest.mark.parametrize("arch", ["generic", "host"])
def test_lanes_along_the_length_of_a_cache_agree_with_the_simulator(arch):
    model = Model.from_arrays({}, sizevars={"D": 24, "H": 3})
    generator = np.random.default_rng(5)
    inputs = {
        "q": generator.normal(size=(STEPS, 1, 24)).astype(np.float32),
        "k": generator.normal(size=(STEPS, 3, 8)).astype(np.float32),
        # Sums of these cancel nothing, so that their order shows in the last digits only.
        "x": generator.uniform(0.5, 1.5, size=STEPS).astype(np.float32),
    }
    synthesis = Synthesizer("c", arch=arch, limits={"t": STEPS}).synthesize(model, graph(PROGRAM))
    found = run_sanitised(synthesis, inputs, steps=STEPS, flags=FLAGS[arch])
    executor = Simulator(model, graph(PROGRAM), device="cpu").make_executor()

    for step in range(STEPS):
        executor.step(**{name: stacked[step] for name, stacked in inputs.items()})
        for name, stacked in found.items():
            difference = compare(name, np.asarray(executor.result(name).array), stacked[step])
            assert difference.within, (step, difference)


def test_every_pass_over_the_scores_of_an_attention_is_in_lanes():
    model = Model.from_arrays({}, sizevars={"D": 24, "H": 3})
    plan = Synthesizer("c", arch="host", limits={"t": 4096}).synthesize(model, graph(PROGRAM)).plan

    lanes = varying_lanes(plan)
    # The greatest score, the exponentials, their sum.
    assert lanes["attn"] >= 3
    assert min(lanes[name] for name in ("exp", "sum_axis", "mul", "add") if name in lanes) >= 1
