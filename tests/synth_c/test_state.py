"""Programs with persistent variables as C: equal to the simulator step after step, under sanitizers."""

from __future__ import annotations

import numpy as np
import pytest
from generated_c import COMPILERS, assert_steps_agree, needs_gcc, noise, printed_by, synthesised

from openinfer.errors import SynthesisError

STEPS = 100
"""Enough for the narrow counters to wrap."""

pytestmark = needs_gcc

AVERAGE = """
dynamic { x: f32[D]; }
volatile { y: f32[D]; }
persistent { mean: f32[D]; n: i32; }
block entry {
  op cast(x, to=f32) >> t;
  cache.read mean >> old;
  cache.increment n;
  cache.read n >> count;
  op cast(count, to=f32) >> by;
  op sub(t, old) >> change;
  op div(change, by) >> change;
  op add(old, change) >> new;
  cache.write new >> mean;
  op mul(new, x) >> y;
  return y;
}
"""

CONTROL = """
dynamic { x: f32[D]; }
volatile { y: f32[D]; c: i32; }
persistent { h: f32[D]; n: i32 @init(3); g: f32 @init(1.5); b: i8; }
block entry {
  cache.read h >> a;
  op add(a, x) >> a;
  op tanh(a) >> y;
  cache.write a >> h;
  cache.increment 2 n;
  cache.decrement g;
  cache.increment n b;
  cache.increment 100 b;
  cache.read n >> c;
  cache.read g >> k;
  op mul(y, k) >> y;
  loop turns (i in 0..n) { op add(y, x) >> y; }
  op gt(c, c) >> never;
  branch never grow shrink;
  loop rounds (i in 0..2) { cache.increment i n; branch wrap; }
  return y, c;
}
block grow { cache.increment n; return; }
block shrink { op gt(y, y) >> t; cache.read h >> y; return; }
block wrap { cache.read b >> seen; op cast(seen, to=bool) >> odd; branch odd back stay; return; }
block back { cache.reset h; cache.reset g; return; }
block stay { cache.decrement 3 n; return; }
"""

SWAPPED = """
dynamic { x: f32[2]; }
volatile { y: f32[2]; z: f32[2]; }
persistent { one: f32[2] @init(1.0); other: f32[2] @init(2.0); }
block entry {
  cache.read one >> a;
  cache.read other >> b;
  cache.write b >> one;
  cache.write a >> other;
  cache.read one >> y;
  cache.write x >> one;
  op add(a, b) >> z;
  return y, z;
}
"""


def test_a_running_average_is_that_of_all_steps():
    plan = assert_steps_agree(AVERAGE, sizes={"D": 5}, x=noise(STEPS, 5), steps=STEPS)

    assert [state.name for state in plan.states] == ["mean", "n"]
    assert plan.state_nbytes == 24


def test_counters_branches_and_loops_with_bounds_in_persistent_variables_agree():
    assert_steps_agree(CONTROL, {"h": noise(4, seed=3)}, sizes={"D": 4}, x=noise(STEPS, 4), steps=STEPS)


def test_what_was_read_stays_when_the_variable_changes():
    assert_steps_agree(SWAPPED, x=noise(STEPS, 2), steps=STEPS)


@pytest.mark.parametrize("dtype", ["i8", "u8", "i16", "u32", "i64", "u64", "f16", "bf16", "f64"])
def test_counters_of_every_type_wrap_or_add_as_in_the_simulator(dtype):
    text = f"""
    dynamic {{ by: i64; }}
    volatile {{ y: {dtype}; z: {dtype}; }}
    persistent {{ n: {dtype}; m: {dtype}; }}
    block entry {{
      cache.increment 37 n;
      cache.decrement 11 m;
      cache.increment by m;
      cache.decrement (2 * by) n;
      cache.read n >> y;
      cache.read m >> z;
      return y, z;
    }}
    """
    assert_steps_agree(text, by=np.random.default_rng(1).integers(0, 60, STEPS), steps=STEPS)


def test_packed_variables_keep_their_elements():
    text = """
    dynamic { x: i4[5]; }
    volatile { y: i4[5]; }
    persistent { h: i4[5] @init(-3); }
    block entry { cache.read h >> y; cache.write x >> h; return y; }
    """
    assert_steps_agree(text, x=np.random.default_rng(2).integers(-8, 8, (STEPS, 5)).astype(np.int8), steps=STEPS)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_reset_restores_initial_values_and_a_failed_step_keeps_what_it_changed(compiler):
    text = """
    dynamic { at: i64; x: f32[3]; }
    volatile { y: f32[]; n: i32; }
    persistent { sum: f32[] @init(0.5); count: i32 @init(7); }
    block entry {
      cache.increment count;
      op gather(x, at) >> picked;
      cache.read sum >> old;
      op add(old, picked) >> y;
      cache.write y >> sum;
      cache.read count >> n;
      return y, n;
    }
    """
    main = """
    #include "model.h"
    #include <stdio.h>
    int main(void) {
        const float x[3] = {1.0f, 2.0f, 4.0f};
        const int64_t places[] = {0, 2, 9, 1};
        float y = 0.0f;
        int32_t n = 0;
        static struct model instance;
        struct model_outputs outputs;
        if (model_init(&instance) != MODEL_OK) { return 1; }
        outputs.v_y = &y;
        outputs.v_n = &n;
        for (int turn = 0; turn < 2; ++turn) {
            for (int i = 0; i < 4; ++i) {
                struct model_inputs inputs;
                enum model_status status;
                inputs.v_at = &places[i];
                inputs.v_x = x;
                status = model_step(&instance, &inputs, &outputs);
                printf("%d %.1f %d;", (int)status, (double)y, (int)n);
            }
            if (model_reset(&instance) != MODEL_OK) { return 1; }
        }
        return 0;
    }
    """
    _, _, synthesis = synthesised(text)

    printed = printed_by(main, synthesis.bundle, compiler)

    once = ["0 1.5 8", "0 5.5 9", "2 5.5 9", "0 7.5 11"]
    assert printed.split(";")[:-1] == once + once


def test_runs_of_a_step_that_is_timed_begin_with_the_same_state():
    _, _, synthesis = synthesised(SWAPPED)
    inputs = {"x": noise(4, 2)}

    once, often = (synthesis.run(inputs, steps=4, repeat=repeat) for repeat in (1, 3))

    assert once.outputs
    for name, array in once.outputs.items():
        np.testing.assert_array_equal(often.outputs[name], array)
        assert len({row.tobytes() for row in array}) > 1, "the steps differ, so a state that runs on would show"


def test_a_persistent_variable_is_returned_by_way_of_what_was_read():
    with pytest.raises(SynthesisError, match=r"`return n`: a persistent variable cannot be a result") as caught:
        synthesised("persistent { n: i32; } block entry { cache.increment n; return n; }")

    assert "cache.read n" in caught.value.diagnostics[0].hint


def test_the_plan_names_states_and_how_they_begin():
    _, _, synthesis = synthesised(CONTROL, {"h": noise(4)}, {"D": 4})

    assert [line for line in synthesis.report().splitlines() if line.startswith("state")] == [
        "state    n: i32[]",
        "state    h: f32[4]",
        "state    g: f32[]",
        "state    b: i8[]",
    ]
    document = synthesis.bundle.files["plan.json"].decode()
    assert '"text": "fill 1.5 >> g"' in document
    assert '"text": "copy h.initial >> h"' in document
