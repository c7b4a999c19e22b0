"""Reads of caches that copy nothing, also where the elements lie apart: plans, and results as simulated."""

from __future__ import annotations

import numpy as np
import pytest
from generated_c import needs_gcc, run_sanitised

from openinfer.dsl import graph
from openinfer.model import Model
from openinfer.plan.accesses import walk
from openinfer.plan.steps import LoadStep
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer
from openinfer.synth.comparison import compare

STEPS = 40
SIZES = {"H": 3, "D": 8}

pytestmark = needs_gcc

HEADS_FIRST = """
dynamic { q: f32[H, 1, D]; k: f32[H, D]; v: f32[H, D]; }
volatile { y: f32[H, 1, D]; z: f32[H]; }
persistent {
  n: i32;
  K(l, h, t): f32[D] @table @fixed(l=2, h=3, t=48);
  V(l, h, t): f32[D] @table @fixed(l=2, h=3, t=48);
}
block entry {
  loop layers (l in 0..2) {
    cache.write k >> K[l, 0..H, n];
    cache.write v >> V[l, 0..H, n];
    cache.read K[l, 0..H, 0..n + 1] >> keys;
    cache.read V[l, 0..H, 0..n + 1] >> values;
    op sdpa(q, keys, values) >> part;
    op add(y, part) >> y;
  }
  cache.read K[1, 0..H, n] >> last;
  op sum_axis(last, axes=[1]) >> z;
  cache.increment n;
  return y, z;
}
"""

PARTS_OF_A_MATRIX = """
dynamic { x: f32; }
volatile { y: f32; z: f32[4]; }
persistent { n: i32; A(i, j): f32[2, 4] @auto_dim(i, j) @fixed(i=48, j=48); }
block entry {
  cache.read A[n, n] >> whole;
  op add(whole, x) >> more;
  cache.write more >> A;
  cache.read A[0..n + 2, 1..4] >> some;
  op sum_axis(some) >> y;
  cache.read A[n + 1, 0..4] >> z;
  cache.increment n;
  return y, z;
}
"""

STORED = """
dynamic { x: f32[2]; }
volatile { y: f32[3, 2]; }
persistent { n: i32; K(h, t): f32[2] @table @fixed(h=3, t=48); L(h): f32[2] @table @fixed(h=3); }
block entry {
  cache.write x >> K[n % 3, n];
  cache.read K[0..3, n] >> column;
  cache.write column >> L[0..3];
  cache.read L[0..3] >> rows;
  op add(rows, x) >> y;
  cache.increment n;
  return y;
}
"""


def loads(plan):
    return {
        plan.values[step.output].name: step
        for procedure in plan.procedures
        for step in walk(procedure.steps)
        if isinstance(step, LoadStep)
    }


def assert_steps_agree(text, **inputs):
    model, program = Model.from_arrays({}, sizevars=SIZES), graph(text)
    synthesis = Synthesizer("c").synthesize(model, program, sizes=SIZES)
    found = run_sanitised(synthesis, inputs, steps=STEPS)
    cpu = Simulator(model, program, device="cpu").make_executor()
    for step in range(STEPS):
        cpu.step(**{name: stacked[step] for name, stacked in inputs.items()})
        for name, stacked in found.items():
            expected = np.asarray(cpu.result(name).array, stacked[step].dtype)
            assert expected.shape == stacked[step].shape, step
            difference = compare(name, expected, stacked[step])
            assert difference.within, (step, difference)
    return loads(synthesis.plan)


@pytest.mark.parametrize("text", [HEADS_FIRST, PARTS_OF_A_MATRIX, STORED])
def test_device_c_reads_them_alike(text):
    model = Model.from_arrays({}, sizevars=SIZES)
    cpu, c = (Simulator(model, graph(text), device=device).make_executor() for device in ("cpu", "c"))
    shapes = {port: cpu.input_type(port).shape for port in ("q", "k", "v", "x") if f"{port}: f32" in text.split("}")[0]}
    inputs = {name: noise(*shape, seed=place) for place, (name, shape) in enumerate(shapes.items())}
    for step in range(STEPS):
        for executor in (cpu, c):
            executor.step(**{name: stacked[step] for name, stacked in inputs.items()})
        for name in cpu.outputs():
            np.testing.assert_allclose(c.fetch(name), cpu.fetch(name), rtol=1e-5)


def noise(*shape, seed=0):
    return np.random.default_rng(seed).uniform(0.1, 1, (STEPS, *shape)).astype(np.float32)


def test_keys_by_head_and_position_are_read_where_they_lie():
    found = assert_steps_agree(HEADS_FIRST, q=noise(3, 1, 8), k=noise(3, 8, seed=1), v=noise(3, 8, seed=2))

    assert {name: step.view is not None for name, step in found.items()} == {"keys": True, "values": True, "last": True}
    assert not found["keys"].is_contiguous


def test_parts_of_a_matrix_are_read_where_they_lie_until_it_changes():
    found = assert_steps_agree(PARTS_OF_A_MATRIX, x=noise())

    views = {name: step.view is not None for name, step in found.items()}
    # The matrix changes after `more` was computed from it.
    assert (views["whole"], views["some"]) == (True, True)


def test_what_is_stored_elsewhere_is_copied_first():
    found = assert_steps_agree(STORED, x=noise(2))

    assert (found["column"].view, found["rows"].view is not None) == (None, True)
