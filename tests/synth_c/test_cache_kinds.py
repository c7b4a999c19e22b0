"""Generated C and simulator agree on caches of packed element types, and matrices that grow from data of the model."""

from __future__ import annotations

import numpy as np
import pytest
from generated_c import needs_gcc, run_sanitised

from openinfer.dsl import graph
from openinfer.model import Model
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer
from openinfer.synth.comparison import compare

STEPS = 12

pytestmark = needs_gcc


def assert_agree_on_both_paths(text, arrays, steps, **inputs):
    """Compare a bundle and device c with cpu, step after step, and all memory of device c with that of cpu."""
    model, program = Model.from_arrays(arrays), graph(text)
    synthesis = Synthesizer("c").synthesize(model, program)
    found = run_sanitised(synthesis, inputs, steps=steps)
    cpu, c = (Simulator(model, program, device=device).make_executor() for device in ("cpu", "c"))
    assert found
    for step in range(steps):
        for executor in (cpu, c):
            executor.step(**{name: stacked[step] for name, stacked in inputs.items()})
        if step == steps // 2:
            c.restore(c.snapshot())
        for name, stacked in found.items():
            expected = np.asarray(cpu.result(name).array, stacked[step].dtype)
            assert expected.shape == stacked[step].shape, step
            difference = compare(name, expected, stacked[step])
            assert difference.within, (step, difference)
            np.testing.assert_allclose(c.fetch(name), cpu.fetch(name), rtol=1e-5)
        for name in ("n", "K"):
            np.testing.assert_allclose(c.fetch(name), cpu.fetch(name), rtol=1e-5)


PACKED = """
dynamic {{ x: {dtype}[5]; clear: bool; }}
volatile {{ y: {dtype}[5]; z: {dtype}[5]; s: i32[5]; w: {dtype}[2, 5]; }}
persistent {{ n: i32; K(l, t): {dtype}[5] @table @fixed(l=2, t=20) {initial}; }}
block entry {{
  cache.write x >> K[1, n];
  cache.write x >> K[0, n + 1];
  cache.increment n;
  cache.read K[1, floor(n / 2)] >> y;
  cache.read K[0..2, n] >> w;
  cache.read K[0, 0..n] >> all;
  op cast(all, to=i32) >> wide;
  op sum_axis(wide, axes=[0]) >> s;
  cache.read K[0, 3] >> z;
  branch clear wipe keep;
  return y, z, s, w;
}}
block wipe {{ cache.reset K; return; }}
block keep {{ return; }}
"""
RANGES = {"i4": (-8, 8), "u2": (0, 4), "i1": (-1, 1), "t2": (-1, 2), "bool": (0, 2), "bitset": (0, 256)}


@pytest.mark.parametrize("dtype", RANGES)
def test_caches_of_packed_elements_agree(dtype):
    stored = {"b": np.uint8, "u": np.uint8}.get(dtype[0], np.int8)
    x = np.random.default_rng(2).integers(*RANGES[dtype], (STEPS, 5)).astype(np.bool_ if dtype == "bool" else stored)
    text = PACKED.format(dtype=dtype, initial="@init(-3)" if dtype == "i4" else "")

    assert_agree_on_both_paths(text, {}, STEPS, x=x, clear=np.arange(STEPS) == 7)


def test_a_matrix_grows_from_the_data_of_the_model():
    text = """
    dynamic { x: f32; clear: bool; }
    volatile { y: f32; row: f32[3]; }
    persistent { n: i32; K(i, j): f32[2, 3] @auto_dim(i, j) @fixed(i=20, j=30); }
    block entry {
      cache.read K[n, 2 * n] >> whole;
      op add(whole, x) >> whole;
      cache.write whole >> K[n, 2 * n];
      op sum_axis(whole) >> y;
      cache.read K[1, 0..3] >> row;
      cache.increment n;
      branch clear wipe keep;
      return y, row;
    }
    block wipe { cache.reset K; cache.reset n; return; }
    block keep { return; }
    """
    x = np.linspace(0.5, 2, STEPS, dtype=np.float32)
    data = np.arange(1, 7, dtype=np.float32).reshape(2, 3)

    assert_agree_on_both_paths(text, {"K": data}, STEPS, x=x, clear=np.arange(STEPS) == 5)


def test_the_last_byte_of_a_result_of_packed_elements_has_zeros_after_them():
    text = """
    dynamic { n: i32; m: i32; }
    volatile { z: i2[2, 3]; s: i32[3]; }
    persistent { K(l): i2[3] @init(-1) @table @fixed(l=4); }
    block entry {
      cache.read K[0..m] >> before;
      op cast(before, to=i32) >> wide;
      op sum_axis(wide, axes=[0]) >> s;
      cache.read K[0..n] >> x;
      op identity(x) >> z;
      return s, z;
    }
    """
    executor = Simulator(Model.from_arrays({}), graph(text), device="c").make_executor()

    for _ in range(2):
        executor.step(n=np.int32(2), m=np.int32(4))
        assert executor.fetch("s").tolist() == [-4, -4, -4]
        assert executor.fetch_raw("z").storage.tolist() == [0b11111111, 0b1111]
