"""Shapes of generated C that are known at run time only: results, keys and values, lanes next to such a length."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from generated_c import COMPILERS, STEPS, assert_steps_agree, needs_gcc, noise, printed_by, synthesised

from openinfer.dsl import graph
from openinfer.errors import ExecutionError, SynthesisError
from openinfer.model import Model
from openinfer.plan.steps import ComputeStep
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer

pytestmark = needs_gcc


def test_an_input_keeps_its_shape():
    text = """
    dynamic { x: f32[2, 3]; n: i32; }
    volatile { y: f32[3]; }
    persistent { K(t): f32[3] @table; }
    block entry { cache.read K[0..n] >> x; op sum_axis(x, axes=[0]) >> y; return y; }
    """
    with pytest.raises(SynthesisError, match="`x` is an input, and gets a shape that is known at run time only"):
        synthesised(text, limits={"t": 8})


@pytest.mark.parametrize(
    ("declared", "statement", "message"),
    [
        ("y: f32[3];", "op flatten(x) >> y;", "a result of 2 dims is stored in `y`, which has 1"),
    ],
    ids=["another rank"],
)
def test_results_of_run_time_that_have_no_form_are_errors_at_their_line(declared, statement, message):
    text = f"""
    volatile {{ {declared} }}
    persistent {{ n: i32; K(t): f32[3] @table; }}
    block entry {{ cache.read K[0..n] >> x; {statement} return y; }}
    """
    with pytest.raises(SynthesisError, match=message) as caught:
        synthesised(text, limits={"t": 8})

    assert (caught.value.code, caught.value.diagnostics[0].span.line) == ("unsupported", 4)


def test_no_condition_of_a_loop_branches():
    """GCC 13 ignores pragmas on such loops, with a warning."""
    text = """
    dynamic { n: i32; }
    constant { x: f32[4]; }
    block entry { op slice(x, starts=[n + 1], ends=[4]) >> y; return y; }
    """
    _, _, synthesis = synthesised(text, {"x": noise(4)})
    source = synthesis.bundle.files["model.c"].decode()

    conditions = re.findall(r"for \([^;]*;([^;]*);", source)
    assert conditions
    assert not [condition for condition in conditions if "?" in condition]


VARYING = {
    "what was read": """
        dynamic { x: f32[3]; p: i32; }
        persistent { n: i32; K(t): f32[3] @table; }
        block entry { cache.write x >> K[n]; cache.read K[0..n] >> all; cache.increment n; return all; }""",
    "what is computed": """
        dynamic { x: f32[3]; p: i32; }
        volatile { y: f32[3]; }
        persistent { n: i32; K(t): f32[3] @table; }
        block entry {
          cache.write x >> K[n];
          cache.increment n;
          cache.read K[0..n] >> all;
          op mul(all, x) >> scaled;
          op transpose(all, perm=[1, 0]) >> turned;
          op sum_axis(scaled, axes=[0]) >> y;
          return scaled, y, turned;
        }""",
    "a part of an input": """
        dynamic { x: f32[5, 3]; p: i32; }
        block entry { op slice(x, starts=[p - 2], ends=[5], axes=[0]) >> rows; return rows; }""",
    "the last two of a growing number": """
        dynamic { x: f32[3]; p: i32; }
        persistent { n: i32; K(t): f32[3] @table; }
        block entry {
          cache.write x >> K[n];
          cache.increment n;
          cache.read K[0..n] >> all;
          op slice(all, axes=[0], starts=[-2], ends=[99]) >> y;
          return y;
        }""",
    "transferred": """
        dynamic { x: f32[3]; p: i32; }
        volatile { y: f32[5, 3]; z: f32[9, 3]; w: f32[3]; }
        persistent { n: i32; K(t): f32[3] @table; }
        block entry {
          cache.write x >> K[n];
          cache.increment n;
          cache.read K[0..n] >> y;
          cache.read K[2..n + 2] >> z;
          transfer y >> z;
          op neg(y) >> y;
          op add(z, x) >> z;
          op sum_axis(z, axes=[0]) >> w;
          return y, z, w;
        }""",
    "the shape of one branch or the other": """
        dynamic { x: f32[3]; p: i32; }
        volatile { y: f32[3, 3]; }
        persistent { n: i32; K(t): f32[3] @table; }
        block entry {
          cache.write x >> K[n];
          cache.increment n;
          op cast(p, to=bool) >> some;
          branch some part rest;
          return y;
        }
        block part { cache.read K[0..n] >> y; return; }
        block rest { cache.read K[0..p + 1] >> y; return; }""",
}


@pytest.mark.parametrize("name", VARYING)
def test_results_whose_shape_varies_agree_with_the_simulator(name):
    text = VARYING[name]
    limits = {"t": 64} if "K(t)" in text else None
    _, _, synthesis = synthesised(text, limits=limits)

    x = noise(STEPS, *synthesis.plan.inputs[0].type.shape)
    plan = assert_steps_agree(text, limits=limits, x=x, p=np.arange(STEPS, dtype=np.int32) % 3)
    assert any(port.extents is not None for port in plan.outputs)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_caller_gets_the_shape_of_a_result_with_its_elements(compiler):
    text = """
    dynamic { x: f32[2]; }
    persistent { n: i32; K(t): f32[2] @table @fixed(t=2); }
    block entry { cache.write x >> K[n]; cache.increment n; cache.read K[0..n] >> all; return all; }
    """
    main = """
    #include "model.h"
    #include <stdio.h>
    int main(void) {
        const float x[2] = {1.0f, 2.0f};
        float all[MODEL_OUTPUT_ALL_BYTES / sizeof(float)] = {0.0f};
        size_t shape[2] = {7, 7};
        static struct model instance;
        struct model_inputs inputs;
        struct model_outputs outputs;
        if (model_init(&instance) != MODEL_OK) { return 1; }
        inputs.v_x = x;
        outputs.v_all = all;
        for (int i = 0; i < 3; ++i) {
            outputs.shape_all = shape;
            printf("%d ", (int)model_step(&instance, &inputs, &outputs));
            printf("%d %d;", (int)shape[0], (int)shape[1]);
        }
        if (model_reset(&instance) != MODEL_OK) { return 1; }
        outputs.shape_all = NULL;
        printf("%d;", (int)model_step(&instance, &inputs, &outputs));
        return 0;
    }
    """
    _, _, synthesis = synthesised(text)

    printed = printed_by(main, synthesis.bundle, compiler)

    # A step that fails leaves the shape as it was.
    assert printed.split(";")[:-1] == ["0 1 2", "0 2 2", "4 2 2", "0"]


def test_a_plan_says_which_extents_of_results_vary():
    _, _, synthesis = synthesised(VARYING["what was read"], limits={"t": 8})

    assert "output   all: f32[8,3] at most, [all.0, 3] after a step" in synthesis.report().splitlines()
    document = json.loads(synthesis.bundle.files["plan.json"])
    assert document["outputs"][0]["extents"] == ["all.0", 3]


def test_a_run_of_one_step_returns_the_shape_that_the_step_made():
    _, _, synthesis = synthesised(VARYING["a part of an input"])

    x = noise(5, 3)
    found = synthesis.run({"x": x, "p": np.array(1, np.int32)}).outputs["rows"]
    assert np.array_equal(found, x[-1:])


def test_keys_and_values_of_different_lengths_fail_the_step():
    text = """
    dynamic { x: f32[1, 3]; n: i32; m: i32; }
    volatile { y: f32[1, 3]; }
    persistent { K(t): f32[1, 3] @table; V(t): f32[1, 3] @table; }
    block entry {
      cache.read K[0..n] >> keys;
      cache.read V[0..m] >> values;
      op attn(x, keys, values) >> y;
      return y;
    }
    """
    model, program, synthesis = synthesised(text, limits={"t": 8})
    inputs = {"x": noise(1, 3), "n": np.array(2, np.int32), "m": np.array(3, np.int32)}

    with pytest.raises(ExecutionError):
        Simulator(model, program, device="cpu").make_executor().step(**inputs)
    with pytest.raises(SynthesisError, match="sizes or settings that are known at run time only do not fit"):
        synthesis.run(inputs)


def test_a_transfer_between_shapes_that_differ_fails_the_step():
    text = """
    dynamic { x: f32[3]; p: i32; }
    volatile { y: f32[3, 3]; }
    persistent { K(t): f32[3] @table; }
    block entry { cache.read K[0..p] >> some; transfer some >> y; return y; }
    """
    model, program, synthesis = synthesised(text, limits={"t": 8})
    assert synthesis.run({"p": np.array(3, np.int32)}).outputs["y"].shape == (3, 3)
    inputs = {"p": np.array(2, np.int32)}

    with pytest.raises(ExecutionError):
        Simulator(model, program, device="cpu").make_executor().step(**inputs)
    with pytest.raises(SynthesisError, match="sizes or settings that are known at run time only do not fit"):
        synthesis.run(inputs)


DECODE = """
dynamic { q: f32[1, D]; k: f32[1, D]; }
volatile { y: f32[1, D]; m: f32[D]; s: f32[D]; }
persistent { n: i32; K(t): f32[1, D] @table; V(t): f32[1, D] @table; }
block entry {
  cache.write k >> K[n];
  cache.write q >> V[n];
  cache.increment n;
  cache.read K[0..n] >> keys;
  cache.read V[0..n] >> values;
  op attn(q, keys, values) >> y;
  op mul(keys, values) >> products;
  op max_axis(products, axes=[0, 1]) >> m;
  op sum_axis(products, axes=[0, 1]) >> s;
  return y, m, s;
}
"""


@pytest.mark.parametrize("width", [2, 16, 19, 70])
def test_lanes_along_a_width_inside_of_a_length_of_run_time_agree_with_the_simulator(width):
    assert_steps_agree(
        DECODE, sizes={"D": width}, limits={"t": 64}, q=noise(STEPS, 1, width), k=noise(STEPS, 1, width, seed=1)
    )


@pytest.mark.parametrize("arch", ["generic", "x86-64-v3"])
def test_products_and_sums_on_a_length_of_run_time_have_lanes_along_the_width(arch):
    model = Model.from_arrays({}, sizevars={"D": 64})
    plan = Synthesizer("c", limits={"t": 64}, arch=arch).synthesize(model, graph(DECODE)).plan

    (block,) = plan.procedures
    stages = [
        (stage, schedule)
        for step in block.steps
        if isinstance(step, ComputeStep) and step.arguments
        for stage, schedule in zip(step.computation.stages, step.arrangement.schedules, strict=True)
    ]
    wide = [
        schedule.lanes is not None and schedule.lanes.axis.extent == 64
        for stage, schedule in stages
        if 64 in [axis.extent for axis in (*stage.axes, *(() if stage.fold is None else stage.fold.axes))]
        # Folds that begin with their first term, such as `max_axis`, have no tiles.
        if stage.fold is None or stage.fold.totals[0].start is not None
    ]
    assert len(wide) >= 4
    assert all(wide), [schedule for _, schedule in stages]


@pytest.mark.parametrize("length", [8, 37])
def test_what_is_left_from_any_first_place_is_copied_whole(length):
    """Blocks of vectors, single vectors, then elements: where a block ends follows from the first place."""
    text = f"""
    dynamic {{ first: i32; x: f64[{length}]; }}
    block entry {{ op slice(x, starts=[first], ends=[{length}]) >> part; op neg(part) >> y; return y; }}
    """
    steps = length + 1
    x = noise(steps, length).astype(np.float64)
    assert_steps_agree(text, steps=steps, x=x, first=np.arange(steps, dtype=np.int32))


def test_loops_around_places_of_run_time_have_overflows_of_their_own():
    """Each of the two loops, and the place within them, needs a test of its own that 64 bits are enough."""
    text = """
    dynamic { n: i32; x: f32[2]; }
    persistent { K(t): f32[2] @table; }
    block entry {
      op identity(x) >> y;
      loop outer (i in 0..n + 1) {
        loop inner (j in 0..i + 1) {
          cache.write y >> K[i + j];
          cache.read K[i + j] >> y;
          op neg(y) >> y;
        }
      }
      return y;
    }
    """
    n = np.arange(STEPS, dtype=np.int32) % 4
    assert_steps_agree(text, limits={"t": 8}, n=n, x=noise(STEPS, 2))
