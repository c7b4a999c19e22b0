"""Programs with caches as C: equal to the simulator step after step, under sanitizers, in memory with bounds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from generated_c import COMPILERS, STEPS, assert_steps_agree, needs_gcc, noise, printed_by, synthesised

from openinfer.dsl import graph
from openinfer.errors import ExecutionError
from openinfer.model import Model
from openinfer.plan.steps import LoadStep, LoopStep
from openinfer.plan.values import ViewMemory
from openinfer.simulate import Simulator

pytestmark = needs_gcc


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

    printed = printed_by(main, synthesis.bundle, compiler)

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


def test_the_auto_dim_example_is_what_the_simulator_computes():
    text = (Path(__file__).parents[2] / "examples/auto-dim/growing.oi").read_text()

    assert_steps_agree(text, sizes={"D": 2, "H": 3}, steps=16)


def test_the_program_of_the_auto_dim_page_prints_what_the_page_says():
    folder = Path(__file__).parents[2] / "examples/auto-dim"
    page = (folder / "README.md").read_text()
    _, _, synthesis = synthesised((folder / "growing.oi").read_text(), sizes={"D": 2, "H": 3})

    printed = printed_by(page.split("```c\n")[1].split("```")[0], synthesis.bundle, "gcc")
    rows = [line.strip() for line in printed.splitlines()]

    assert len(rows) == 16
    assert f"`{rows[0]}`, `{rows[1]}` and `{rows[2]}`" in page


@pytest.mark.parametrize("device", ["cpu", "c"])
def test_a_change_before_a_failure_stays_though_a_later_statement_would_undo_it(device):
    text = """
    dynamic { at: i32; }
    volatile { g: f32[2]; }
    persistent { A: f32[2] @init(2.5); K(t): f32[2] @table @fixed(t=4); }
    block entry {
      cache.read A >> g;
      op neg(g) >> g;
      cache.write g >> A;
      cache.read K[at] >> y;
      cache.reset A;
      return g, y;
    }
    """
    found: list[float] = []
    with Simulator(Model.from_arrays({}), graph(text), device=device).make_executor() as executor:
        executor.step(at=np.int32(1))
        found.append(executor.fetch("g")[0])
        with pytest.raises(ExecutionError) as caught:
            executor.step(at=np.int32(4))
        assert caught.value.code == "cache-limit"
        executor.step(at=np.int32(1))
        found.append(executor.fetch("g")[0])

    assert found == [-2.5, 2.5]
