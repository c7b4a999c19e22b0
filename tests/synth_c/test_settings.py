"""Settings of generated C that loop indices and integers from memory decide, step by step."""

from __future__ import annotations

import numpy as np
import pytest
from generated_c import STEPS, assert_steps_agree, needs_gcc, noise, synthesised

from openinfer.errors import ExecutionError, SynthesisError
from openinfer.simulate import Simulator

pytestmark = needs_gcc

SETTINGS = {
    "select by a loop index": "loop l (i in 0..4) { op select(x, axis=0, index=i) >> r; op add(y, r) >> y; }",
    "select by a variable": "op select(x, axis=0, index=p) >> y;",
    "select by an expression": "op select(x, axis=0, index=3 - p) >> y;",
    "narrow": "op narrow(x, axis=0, start=p, length=1) >> r; op squeeze(r, axes=[0]) >> y;",
    "select from the end": "op select(x, axis=0, index=2 - p) >> y;",
    "narrow from the end": "op narrow(x, axis=0, start=p - 4, length=1) >> r; op squeeze(r, axes=[0]) >> y;",
    "the first rows": "op slice(x, starts=[0], ends=[p], axes=[0]) >> r; op sum_axis(r, axes=[0]) >> y;",
    "the last rows": "op slice(x, starts=[p], ends=[4], axes=[0]) >> r; op sum_axis(r, axes=[0]) >> y;",
    "a length": "op narrow(x, axis=0, start=0, length=p) >> r; op sum_axis(r, axes=[0]) >> y;",
    "valid keys": """
      op narrow(x, axis=0, start=0, length=1) >> q;
      op sdpa(q, x, x, kv_len=p + 1) >> r;
      op squeeze(r, axes=[0]) >> y;""",
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_take_loop_indices_and_integers_from_memory(name):
    text = f"""
    dynamic {{ x: f32[4, 3]; p: i32; }}
    volatile {{ y: f32[3]; }}
    block entry {{ {SETTINGS[name]} return y; }}
    """
    assert_steps_agree(text, x=noise(STEPS, 4, 3), p=np.arange(STEPS, dtype=np.int32) % 4)


@pytest.mark.parametrize("rows", ["starts=[1], ends=[p - 6]", "starts=[p - 6], ends=[3]", "starts=[p - 6], ends=[100]"])
def test_ends_of_run_time_are_clipped_and_count_from_the_end(rows):
    text = f"""
    dynamic {{ x: f32[4, 3]; p: i32; }}
    volatile {{ y: f32[3]; }}
    block entry {{ op slice(x, {rows}, axes=[0]) >> r; op sum_axis(r, axes=[0]) >> y; return y; }}
    """
    assert_steps_agree(text, x=noise(STEPS, 4, 3), p=np.arange(STEPS, dtype=np.int32) % 13)


def test_integers_from_memory_are_shifts_bounds_slopes_and_elements():
    text = """
    dynamic { x: f32[2, 3]; h: f16[3]; w: i32[3]; p: i32; q: i32; }
    block entry {
      op shl(w, bits=p) >> left;
      op shr(w, bits=q - p) >> right;
      op clamp(x, min=p, max=q) >> within;
      op clamp(w, min=q, max=p) >> whole;
      op relu(x, alpha=p) >> sloped;
      op fill(h, value=q) >> filled;
      assign indices: i64[2];
      op fill(indices, value=p) >> indices;
      op div(w, w, div_by_zero_mask=q) >> masked;
      return left, right, within, whole, sloped, filled, indices, masked;
    }
    """
    random = np.random.default_rng(6)
    p, q = np.array([0, 1, 33, -1, 2, 7], np.int32), np.array([3, 0, 70, 5, -4, 2049], np.int32)
    w = random.integers(-4, 5, (6, 3)).astype(np.int32)
    x = random.standard_normal((6, 2, 3)).astype(np.float32) * 8
    x[0, 0] = (-np.inf, np.nan, -0.0)
    assert_steps_agree(text, steps=6, x=x, h=x[:, 0].astype(np.float16), w=w, p=p, q=q)


PADS = """
dynamic { x: f32[4, 3]; p: i64; q: i32; }
volatile { zeros: f32[9, 4]; mirrored: f32[9, 4]; }
block entry {
  op pad(x, pads=[p, 1, 5 - p, 0], value=2) >> zeros;
  op pad(x, pads=[p, 0, 5 - p, 1], mode="reflect") >> mirrored;
  op pad(x, pads=[q, 0, 3 - q, -1], mode="edge") >> edges;
  op pad(x, pads=[q, -1, 3 - q, 0], mode="wrap") >> around;
  return zeros, mirrored, edges, around;
}
"""


def test_margins_of_run_time_cut_off_and_fill():
    p, q = np.array([0, 5, 2, 7, -3, 8, 1], np.int64), np.array([3, -3, 0, 6, 1, -2, 2], np.int32)
    assert_steps_agree(PADS, steps=len(p), x=noise(len(p), 4, 3), p=p, q=q)


@pytest.mark.parametrize(("p", "q"), [(10, 0), (-5, 0), (2**63 - 1, 0), (0, -4)])
def test_margins_that_cut_off_more_than_there_is_fail_the_step_as_in_the_simulator(p, q):
    model, program, synthesis = synthesised(PADS)
    inputs = {"x": noise(4, 3), "p": np.array(p, np.int64), "q": np.array(q, np.int32)}
    with pytest.raises(ExecutionError):
        Simulator(model, program, device="cpu").make_executor().step(**inputs)
    with pytest.raises(SynthesisError, match=r"do not fit|out of range"):
        synthesis.run(inputs)


SEVERAL = {
    "a window": """
        volatile { y: f32[2, 3]; }
        block entry { op slice(x, axes=[0], starts=[p], ends=[p + 2]) >> y; return y; }""",
    "two ends": """
        block entry { op slice(x, axes=[0], starts=[p - 6], ends=[q - 6]) >> r; op neg(r) >> y; return r, y; }""",
    "two axes": "block entry { op slice(x, axes=[0, 1], starts=[p, q], ends=[4, 3]) >> y; return y; }",
    "parts of a cache": """
        persistent { n: i32; K(t): f32[4, 3] @table; }
        block entry {
          cache.write x >> K[n];
          cache.increment n;
          cache.read K[0..n] >> k;
          op select(k, axis=0, index=n - 1) >> y;
          op slice(k, axes=[0], starts=[n - 1 - p], ends=[n]) >> z;
          return y, z;
        }""",
}


@pytest.mark.parametrize("name", SEVERAL)
def test_an_operator_has_several_settings_of_run_time(name):
    text = f"dynamic {{ x: f32[4, 3]; p: i32; q: i32; }} {SEVERAL[name]}"
    random = np.random.default_rng(4)
    most = {"a window": 3, "two ends": 13, "two axes": 4, "parts of a cache": 1}[name]
    p, q = (random.integers(0, size, STEPS).astype(np.int32) for size in (most, 13 if name == "two ends" else 3))
    limits = {"t": STEPS} if "K(t)" in text else None
    assert_steps_agree(text, limits=limits, x=noise(STEPS, 4, 3), p=p, q=q)


def test_an_index_outside_of_a_length_of_run_time_is_a_status():
    text = """
    dynamic { x: f32[2]; p: i32; }
    persistent { n: i32; K(t): f32[2] @table @fixed(t=4); }
    block entry {
      cache.write x >> K[n];
      cache.increment n;
      cache.read K[0..n] >> k;
      op select(k, axis=0, index=p) >> y;
      return y;
    }
    """
    _, _, synthesis = synthesised(text)
    inputs = {"x": noise(3, 2), "p": np.array([0, 1, 3], np.int32)}
    with pytest.raises(SynthesisError, match="known at run time only do not fit"):
        synthesis.run(inputs, steps=3)


def test_a_setting_that_a_step_computes_is_kept_until_sizes_are_set():
    text = """
    dynamic { x: f32[4, 3]; p: i32; }
    volatile { q: i32; y: f32[3]; }
    block entry {
      op add(p, p) >> q;
      op slice(x, starts=[q], ends=[4], axes=[0]) >> r;
      op sum_axis(r, axes=[0]) >> y;
      return y;
    }
    """
    assert_steps_agree(text, x=noise(STEPS, 4, 3), p=np.arange(STEPS, dtype=np.int32) % 3)


@pytest.mark.parametrize(("place", "fits"), [(-5, False), (-4, True), (3, True), (4, False)])
def test_a_place_beyond_both_ends_fails_the_step_as_in_the_simulator(place, fits):
    text = """
    dynamic { x: f32[4, 3]; p: i32; }
    volatile { y: f32[3]; }
    block entry { op select(x, axis=0, index=p) >> y; return y; }
    """
    model, program, synthesis = synthesised(text)
    inputs = {"x": noise(4, 3), "p": np.array(place, np.int32)}
    if fits:
        assert np.array_equal(synthesis.run(inputs).outputs["y"], inputs["x"][place])
        return
    with pytest.raises(ExecutionError):
        Simulator(model, program, device="cpu").make_executor().step(**inputs)
    with pytest.raises(SynthesisError, match="known at run time only do not fit"):
        synthesis.run(inputs)
