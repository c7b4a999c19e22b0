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
    with pytest.raises(SynthesisError, match="an index is out of range"):
        synthesis.run(inputs)


def test_two_settings_that_vary_are_refused_with_what_to_do():
    text = """
    dynamic { x: f32[4, 3]; p: i32; }
    volatile { y: f32[1, 3]; }
    block entry { op slice(x, starts=[p, 0], ends=[p + 1, 3]) >> y; return y; }
    """
    with pytest.raises(SynthesisError, match=r"slice depends on p, p\+1 and on other sizes") as caught:
        synthesised(text)

    assert caught.value.diagnostics[0].hint == "let one setting vary, on inputs whose shape is known"
