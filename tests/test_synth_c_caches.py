"""Programs with caches as C: equal to the simulator step after step, under sanitizers, in memory with bounds."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from openinfer.dsl import graph
from openinfer.errors import ExecutionError, SynthesisError
from openinfer.model import Model
from openinfer.plan.steps import ComputeStep, LoadStep, LoopStep
from openinfer.plan.values import ViewMemory
from openinfer.scratch import scratch_directory
from openinfer.simulate import Simulator
from openinfer.synth import Synthesizer
from openinfer.synth.comparison import compare
from openinfer_synth_c.toolchain import run_tool

FLAGS = (
    *("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-O1", "-ffp-contract=off"),
    *("-fsanitize=undefined,address", "-fno-sanitize-recover=all"),
)
STEPS = 20
COMPILERS = [
    pytest.param(name, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"{name} is not installed"))
    for name in ("gcc", "clang")
]

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


def noise(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def synthesised(text, arrays=None, sizes=None, limits=None):
    model = Model.from_arrays(arrays or {}, sizevars=sizes or {})
    return model, graph(text), Synthesizer("c", limits=limits).synthesize(model, graph(text))


def assert_steps_agree(text, arrays=None, sizes=None, limits=None, steps=STEPS, tolerance=None, **inputs):
    """Run some steps, whose inputs are stacked on a first axis, in the simulator and as C, and compare all of them."""
    model, program, synthesis = synthesised(text, arrays, sizes, limits)
    found = synthesis.target.build_and_run(synthesis.plan, synthesis.bundle, inputs, steps=steps, flags=FLAGS).outputs
    executor = Simulator(model, program, device="cpu").make_executor()
    assert found
    for step in range(steps):
        executor.step(**{name: stacked[step] for name, stacked in inputs.items()})
        for name, stacked in found.items():
            expected = np.asarray(executor.result(name).array, stacked[step].dtype)
            assert expected.shape == stacked[step].shape, step
            difference = compare(name, expected, stacked[step], tolerance)
            assert difference.within, (step, difference)
    return synthesis.plan


def loads(plan):
    def walked(steps):
        for step in steps:
            yield step
            if isinstance(step, LoopStep):
                yield from walked(step.body)

    return [s for p in plan.procedures for s in walked(p.steps) if isinstance(s, LoadStep)]


PROGRAMS = {
    "entries by index": """
        dynamic { x: f32[3]; }
        volatile { y: f32[3]; z: f32[3]; }
        persistent { n: i32; K(t): f32[3] @table @init(0.5); }
        block entry {
          cache.write x >> K[n];
          cache.read K[floor(n / 2)] >> y;
          cache.read K[n + 3] >> z;
          cache.increment n;
          return y, z;
        }""",
    "a running sum of what was stored": """
        dynamic { x: f32[3]; }
        volatile { y: f32[3]; }
        persistent { n: i32; K(t): f32[3] @table; }
        block entry {
          cache.write x >> K[n];
          cache.increment n;
          cache.read K[0..n] >> all;
          op sum_axis(all, axes=[0]) >> y;
          return y;
        }""",
    "elementwise on what was read": """
        dynamic { x: f32[3]; }
        volatile { y: f32[3]; z: f32; }
        persistent { n: i32; K(t): f32[3] @table; }
        block entry {
          cache.write x >> K[n];
          cache.increment n;
          cache.read K[0..n] >> all;
          op mul(all, all) >> all;
          op add(all, x) >> moved;
          op exp(moved) >> moved;
          op max_axis(moved, axes=0) >> y;
          op mean_axis(all) >> z;
          return y, z;
        }""",
    "open and negative ends count from the size": """
        dynamic { x: f32[2]; }
        volatile { y: f32[2]; z: f32[2]; }
        persistent { n: i32; K(t): f32[2] @table; }
        block entry {
          cache.write x >> K[n];
          cache.write x >> K[n + 2];
          cache.increment n;
          cache.read K[] >> all;
          cache.read K[1..-1] >> inner;
          op sum_axis(all, axes=[0]) >> y;
          op sum_axis(inner, axes=[0]) >> z;
          return y, z;
        }""",
    "ranges are written at once": """
        dynamic { x: f32[4, 3]; }
        volatile { y: f32[3]; z: f32[2, 3]; }
        persistent { n: i32; K(l, t): f32[3] @table @fixed(l=2); }
        block entry {
          cache.write x >> K[1, n..n + 4];
          cache.increment 2 n;
          cache.read K[1, 0..n] >> all;
          op sum_axis(all, axes=[0]) >> y;
          cache.read K[0..2, n] >> z;
          return y, z;
        }""",
    "resets": """
        dynamic { x: f32[3]; }
        volatile { y: f32[3]; z: f32[3]; }
        persistent { n: i32; K(l, t): f32[3] @table @fixed(l=2) @init(-1.0); V(t): f32[3] @table; }
        block entry {
          cache.write x >> K[0, n];
          cache.write x >> K[1, n];
          cache.write x >> V[n];
          cache.increment n;
          cache.reset K[0];
          cache.read K[0, 0..n] >> first;
          cache.read K[1, 0..n] >> second;
          op sum_axis(first, axes=[0]) >> y;
          op sum_axis(second, axes=[0]) >> z;
          op gt(x, x) >> never;
          branch clear;
          return y, z;
        }
        block clear { cache.reset V; cache.read V[] >> left; cache.write left >> V[0..0]; return; }""",
    "what was read stays when the cache changes": """
        dynamic { x: f32[3]; }
        volatile { y: f32[3]; z: f32[3]; }
        persistent { n: i32; K(t): f32[3] @table; }
        block entry {
          cache.read K[0..n + 1] >> before;
          cache.write x >> K[n];
          cache.read K[0..n + 1] >> after;
          op sum_axis(before, axes=[0]) >> y;
          op sum_axis(after, axes=[0]) >> z;
          cache.increment n;
          return y, z;
        }""",
    "a copy of what was read stays when the cache changes": """
        dynamic { x: f32[4]; }
        volatile { y: f32[2, 2]; }
        persistent { K(l): f32[4] @table @fixed(l=2); }
        block entry {
          cache.read K[0] >> before;
          assign square: f32[2, 2];
          op reshape(before, shape=[2, 2]) >> square;
          cache.write x >> K[0];
          op matmul(square, square) >> y;
          return y;
        }""",
    "the cache stays when a copy of what was read changes": """
        dynamic { x: f32[4]; }
        volatile { copy: f32[4]; y: f32[4]; }
        persistent { K(l): f32[4] @table @fixed(l=2); }
        block entry {
          cache.write x >> K[0];
          cache.read K[0] >> before;
          transfer before >> copy;
          loop twice (i in 0..2) { op add(copy, x) >> copy; }
          cache.read K[0] >> after;
          op add(after, copy) >> y;
          return y;
        }""",
    "a matrix that grows": """
        dynamic { x: f32; }
        volatile { y: f32; z: f32[2]; }
        persistent { step: i32; A(i, j): f32[2, 3] @auto_dim(i, j) @fixed(i=40, j=40); }
        block entry {
          cache.increment step;
          cache.read A[step, 2 * step] >> whole;
          op add(whole, x) >> whole;
          cache.write whole >> A[step, 2 * step];
          op sum_axis(whole) >> y;
          cache.read A[0..2, 1] >> z;
          return y, z;
        }""",
    "rows of a matrix that grows": """
        dynamic { x: f32; }
        volatile { y: f32; z: f32; }
        persistent { step: i32; A(i, j): f32[2, 3] @auto_dim(i, j) @fixed(i=40, j=40) @init(1.5); }
        block entry {
          cache.read A[step, step + 1] >> whole;
          op add(whole, x) >> whole;
          cache.write whole >> A;
          cache.read A[1, ] >> row;
          op sum_axis(row) >> y;
          cache.read A[, 2] >> column;
          op max_axis(column) >> z;
          cache.increment step;
          return y, z;
        }""",
    "columns that may grow further than rows": """
        dynamic { x: f32; }
        volatile { y: f32; z: f32; }
        persistent { step: i32; A(i, j): f32[2, 3] @auto_dim(i, j) @fixed(i=40, j=2) @init(0.5); }
        block entry {
          cache.read A[2 * step, ] >> row;
          cache.increment step;
          cache.read A[2 * step] >> whole;
          op add(whole, x) >> whole;
          cache.write whole >> A;
          cache.read A[, 1] >> column;
          op sum_axis(column) >> y;
          op sum_axis(row) >> z;
          return y, z;
        }""",
    "a table of matrices that grow": """
        dynamic { x: f32; }
        volatile { y: f32; }
        persistent { step: i32; C(l, i): f32[3] @table @auto_dim(i) @fixed(l=3, i=30); }
        block entry {
          loop layers (l in 0..3) {
            cache.read C[l, step] >> one;
            op add(one, x) >> one;
            cache.write one >> C[l, step];
          }
          cache.read C[0..3, step] >> all;
          op sum_axis(all) >> y;
          cache.increment step;
          return y;
        }""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_caches_agree_with_the_simulator(name):
    text = PROGRAMS[name]
    limits = {"t": 64} if "t)" in text else None
    _, _, synthesis = synthesised(text, limits=limits)

    assert_steps_agree(text, limits=limits, x=noise(STEPS, *synthesis.plan.inputs[0].type.shape))


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_cache_that_is_full_fails_the_step_and_changes_nothing_more(compiler):
    text = """
    dynamic { x: f32; at: i32; }
    volatile { y: f32; }
    persistent { n: i32; K(t): f32[] @table; V(t): f32[] @table @fixed(t=4); }
    block entry {
      cache.increment n;
      cache.write x >> V[at];
      cache.write x >> K[at];
      cache.read K[] >> all;
      cache.read V[] >> fixed;
      op sum_axis(all) >> one;
      op sum_axis(fixed) >> other;
      op add(one, other) >> y;
      return y;
    }
    """
    main = """
    #include "model.h"
    #include <stdio.h>
    int main(void) {
        const int32_t places[] = {0, 2, 3, 4, -1, 1};
        float y = 0.0f;
        static struct model instance;
        struct model_outputs outputs;
        if (model_init(&instance) != MODEL_OK) { return 1; }
        outputs.v_y = &y;
        for (int i = 0; i < 6; ++i) {
            const float x = 1.0f;
            struct model_inputs inputs;
            enum model_status status;
            inputs.v_x = &x;
            inputs.v_at = &places[i];
            status = model_step(&instance, &inputs, &outputs);
            printf("%d %.1f;", (int)status, (double)y);
        }
        return 0;
    }
    """
    _, _, synthesis = synthesised(text, limits={"K.t": 3})

    with scratch_directory() as directory:
        for name, data in synthesis.bundle.files.items():
            (directory / name).write_bytes(data)
        (directory / "main.c").write_text(f"{dedent(main).strip()}\n")
        run_tool([compiler, *FLAGS, "-o", "run", "main.c", "model.c", "-lm"], directory, 60, "the compiler")
        printed = run_tool([str(directory / "run")], directory, 60, "the program")

    # Place 3 is stored in V before K refuses it; 4 and -1 are stored nowhere.
    assert printed.split(";")[:-1] == ["0 2.0", "0 4.0", "4 4.0", "4 4.0", "2 4.0", "0 7.0"]


def test_a_read_of_what_is_not_changed_meanwhile_copies_nothing():
    _, _, synthesis = synthesised(PROGRAMS["a running sum of what was stored"], limits={"t": 8})
    (load,) = loads(synthesis.plan)
    assert load.view is not None
    assert isinstance(synthesis.plan.values[load.output].memory, ViewMemory)

    _, _, synthesis = synthesised(PROGRAMS["what was read stays when the cache changes"], limits={"t": 8})
    before, after = loads(synthesis.plan)
    assert (before.view is None, after.view is None) == (True, False)


UNBOUNDED = """
dynamic { x: f32; }
volatile { y: f32; }
persistent { n: i32; K(l, t): f32[] @table; V(t): f32[] @table; }
block entry {
  loop layers (l in 0..3) { cache.write x >> K[l, n]; }
  cache.write x >> V[n];
  cache.read K[2, n] >> y;
  return y;
}
"""


def test_growth_without_a_bound_is_an_error_that_names_both_ways_to_give_it():
    with pytest.raises(SynthesisError, match="nothing says how many entries index `t` of `K` may reach") as caught:
        synthesised(UNBOUNDED)

    finding = caught.value.diagnostics[0]
    assert (caught.value.code, finding.span.line) == ("cache-limit", 6)
    assert "--limit K.t=N" in finding.hint
    assert "@fixed(t=N)" in finding.hint


def test_an_entry_that_is_only_reset_has_to_have_a_bound_as_well():
    text = """
    dynamic { t: i32; }
    volatile { y: f32; }
    persistent { K(l): f32[] @table; }
    block entry { cache.reset K[t]; cache.read K[0] >> y; return y; }"""
    with pytest.raises(SynthesisError, match="nothing says how many entries index `l` of `K` may reach"):
        synthesised(text)


def test_indices_that_sizes_and_loops_bound_need_no_limit():
    text = """
    dynamic { x: f32[T, 3]; }
    volatile { y: f32[3]; }
    persistent { K(l, t): f32[3] @table; }
    block entry {
      loop layers (l in 0..2 * L) { cache.write x >> K[l, 0..T]; }
      cache.read K[L, T - 1] >> y;
      return y;
    }
    """
    _, _, synthesis = synthesised(text, sizes={"L": 2, "T": 5})

    assert [state.type.shape for state in synthesis.plan.states] == [(4, 5, 3)]


@pytest.mark.parametrize("limits", [{"t": 5}, {"K.t": 5, "V.t": 7}, {"V.t": 7, "t": 5}])
def test_limits_are_for_an_index_of_one_cache_or_of_all(limits):
    _, _, synthesis = synthesised(UNBOUNDED, limits=limits)

    shapes = {state.name: state.type.shape for state in synthesis.plan.states}
    assert shapes == {"n": (), "K": (3, 5), "V": (limits.get("V.t", 5),)}


@pytest.mark.parametrize(
    ("limits", "message"), [({"u": 5}, "no cache has the index 'u'"), ({"t": 0}, "'t' is 0, expected 1")]
)
def test_a_limit_that_means_nothing_is_an_error(limits, message):
    with pytest.raises(SynthesisError, match=message):
        synthesised(UNBOUNDED, limits=limits)


def test_each_cache_without_a_limit_is_reported_once():
    with pytest.raises(SynthesisError) as caught:
        synthesised(UNBOUNDED)

    assert [(d.code, "`V`" in d.message) for d in caught.value.diagnostics] == [
        ("cache-limit", False),
        ("cache-limit", True),
    ]
    assert "(and 1 more)" in str(caught.value)


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
        ("y: f32[3, 3];", 'op pad(x, pads=[1, 0, 1, 0], mode="reflect") >> y;', "pad.* has no form for every n0"),
        (
            "",
            "op slice(x, axes=[0], starts=[-2], ends=[99]) >> y;",
            "its result at 1 has another shape than n0 suggests",
        ),
    ],
    ids=["another rank", "a divisor that is not a size", "an end that is clipped"],
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
def test_a_caller_gets_the_shape_of_a_result_beside_its_elements(compiler):
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

    with scratch_directory() as directory:
        for name, data in synthesis.bundle.files.items():
            (directory / name).write_bytes(data)
        (directory / "main.c").write_text(f"{dedent(main).strip()}\n")
        run_tool([compiler, *FLAGS, "-o", "run", "main.c", "model.c", "-lm"], directory, 60, "the compiler")
        printed = run_tool([str(directory / "run")], directory, 60, "the program")

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


def test_the_auto_dim_example_is_what_the_simulator_computes():
    text = (Path(__file__).parents[1] / "examples/auto-dim/growing.oi").read_text()

    assert_steps_agree(text, sizes={"D": 2, "H": 3}, steps=16)


def test_the_program_of_the_auto_dim_page_prints_what_the_page_says():
    folder = Path(__file__).parents[1] / "examples/auto-dim"
    page = (folder / "README.md").read_text()
    _, _, synthesis = synthesised((folder / "growing.oi").read_text(), sizes={"D": 2, "H": 3})

    with scratch_directory() as directory:
        for name, data in synthesis.bundle.files.items():
            (directory / name).write_bytes(data)
        (directory / "main.c").write_text(page.split("```c\n")[1].split("```")[0])
        run_tool(["gcc", *FLAGS, "-o", "run", "main.c", "model.c", "-lm"], directory, 60, "the compiler")
        rows = [line.strip() for line in run_tool([str(directory / "run")], directory, 60, "the program").splitlines()]

    assert len(rows) == 16
    assert f"`{rows[0]}`, `{rows[1]}` and `{rows[2]}`" in page


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
    with pytest.raises(SynthesisError, match="sizes that are known at run time only do not fit"):
        synthesis.run(inputs)


def test_recursion_is_refused_with_the_blocks_on_the_way_round():
    text = """
    dynamic { x: f32[2]; }
    block entry { branch one; return x; }
    block one { branch two; return; }
    block two { branch three; return; }
    block three { branch one; return; }
    """
    with pytest.raises(SynthesisError, match=r"block 'one' reaches itself \(one -> two -> three -> one\)"):
        synthesised(text)


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
    with pytest.raises(SynthesisError, match="sizes that are known at run time only do not fit"):
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
