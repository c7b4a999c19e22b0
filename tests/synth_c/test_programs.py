"""Programs written out as C give what the simulator gives: compiled without a warning, run under sanitizers."""

from __future__ import annotations

import numpy as np
import pytest
from generated_c import assert_agree, both, needs_gcc, noise, run_sanitised, synthesised

from openinfer.errors import SynthesisError

pytestmark = needs_gcc


def test_a_chain_of_elementwise_operators_is_one_step_and_equal_bit_for_bit():
    text = """
    dynamic { x: f32[4, 5]; s: f32[5]; }
    volatile { y: f32[4, 5]; }
    block entry {
      assign t: f32[4, 5];
      assign u: f32[4, 5];
      op mul(x, s) >> t;
      op add(t, x) >> u;
      op relu(u) >> t;
      op sub(t, s) >> y;
      return y;
    }
    """
    expected, found, plan = both(text, x=noise(4, 5), s=noise(5, seed=1))

    np.testing.assert_array_equal(found["y"], expected["y"])
    assert [len(step.origin.statements) for step in plan.procedures[-1].steps] == [4, 1]


def test_an_epilogue_may_read_the_old_value_of_the_variable_that_it_writes():
    text = """
    dynamic { x: f32[2, 3]; w: f32[3, 4]; }
    volatile { y: f32[2, 4] @init(0.5); }
    block entry {
      assign t: f32[2, 4];
      op matmul(x, w) >> t;
      op add(t, y) >> y;
      op mul(y, y) >> y;
      return y;
    }
    """
    plan = assert_agree(text, x=noise(2, 3), w=noise(3, 4, seed=1))

    assert any(len(step.origin.statements) == 3 for step in plan.procedures[-1].steps)


def test_an_operator_that_is_not_elementwise_may_write_its_input():
    text = """
    dynamic { x: f32[4, 4]; w: f32[4, 4]; }
    block entry {
      op matmul(x, w) >> x;
      op transpose(x) >> x;
      op softmax(x, axis=1) >> x;
      return x;
    }
    """
    assert_agree(text, x=noise(4, 4), w=noise(4, 4, seed=1))


LOOPS = """
dynamic { x: f32[D]; }
volatile {
  w(l, h): f32[D, D] @pattern("w.{l}.{h}");
  y: f32[D];
  rounds: i32 @init(2);
}
block entry {
  assign t: f32[D];
  transfer x >> y;
  loop outer (l in 0..2) {
    loop inner (h in l..rounds+1) {
      op matmul(y, w[l, h]) >> t;
      op add(t, y) >> y;
    }
  }
  op mul(y, x) >> y;
  return y;
}
"""


def test_prefix_tables_in_nested_loops_with_bounds_from_variables():
    arrays = {f"w.{row}.{head}": noise(4, 4, seed=4 * row + head) for row in range(2) for head in range(3)}

    assert_agree(LOOPS, arrays, {"D": 4}, x=noise(4))


def test_an_index_that_no_entry_has_ends_the_step_with_an_error():
    text = """
    dynamic { x: f32[2]; at: i64; }
    volatile { w(l): f32[2] @pattern("w.{l}"); y: f32[2]; }
    block entry { transfer w[at*2] >> y; return y; }
    """
    arrays = {"w.0": noise(2), "w.2": noise(2, seed=1)}
    _, _, synthesis = synthesised(text, arrays)

    def run(at):
        return run_sanitised(synthesis, {"x": noise(2), "at": np.array(at, np.int64)})["y"]

    np.testing.assert_array_equal(run(1), arrays["w.2"])
    for at in (-1, 2, 2**62, -(2**62)):
        with pytest.raises(Exception, match="an index is out of range"):
            run(at)


def test_entries_read_by_number_and_by_an_index_that_is_known_only_when_the_program_runs():
    text = """
    dynamic { a: i64; b: i64; }
    volatile {
      w(l, h): f32[2] @pattern("w{l}{h}");
      v(l): f32[2] @pattern("v.{l}");
      y: f32[2]; z: f32[2];
    }
    block entry { transfer w[a, b] >> y; op add(y, v[100000]) >> z; op add(v[0], z) >> z; return y, z; }
    """
    arrays = {name: noise(2, seed=seed) for seed, name in enumerate(("w123", "w105", "v.0", "v.7", "v.100000"))}

    for a, b in ((1, 23), (12, 3), (10, 5)):
        plan = assert_agree(text, arrays, a=np.array(a), b=np.array(b))

    assert "v.7" not in {weight.source for weight in plan.weights}


BRANCHES = """
dynamic { x: f32[3]; go: bool; }
volatile { y: f32[3] @init(7.0); z: f32[3]; n: i32; }
block entry {
  assign t: f32[3];
  op mul(x, x) >> t;
  branch go yes no;
  branch always;
  op add(z, t) >> z;
  return y, z, n;
}
block yes {
  op add(t, x) >> y;
  return;
}
block no {
  loop search (i in 0..5) {
    op add(z, x) >> z;
    return;
  }
  op fill(y, value=0.0) >> y;
}
block always { op fill(n, value=3) >> n; }
"""


@pytest.mark.parametrize("go", [True, False])
def test_branches_call_blocks_and_return_leaves_loops(go):
    assert_agree(BRANCHES, x=noise(3), go=np.array(go))


def test_memory_starts_afresh_every_step():
    text = """
    dynamic { x: f32[2]; }
    volatile { total: f32[2] @init(1.0); w: f32[2]; }
    block entry {
      op add(total, x) >> total;
      op add(w, total) >> w;
      return total, w;
    }
    """
    _, _, synthesis = synthesised(text, {"w": noise(2)})
    x = noise(3, 2, seed=1)

    found = run_sanitised(synthesis, {"x": x}, steps=3)

    np.testing.assert_array_equal(found["total"], np.float32(1.0) + x)
    np.testing.assert_array_equal(found["w"], noise(2) + (np.float32(1.0) + x))


def test_defaults_constants_and_results_that_nothing_writes():
    text = """
    dynamic { x: f32[2] @init(0.25); }
    constant { c: f32[2]; slope: f32 @init(0.5); }
    volatile { w: f32[2]; y: f32[2]; }
    block entry {
      op relu(x, alpha=slope) >> y;
      op mul(y, c) >> y;
      return y, w, c;
    }
    """
    arrays = {"c": noise(2), "w": noise(2, seed=1)}
    assert_agree(text, arrays)
    assert_agree(text, arrays, x=np.array([-1.0, 1.0], np.float32))


def test_every_element_type_passes_through():
    kinds = {"i8": np.int8, "u16": np.uint16, "i64": np.int64, "u64": np.uint64, "bool": bool, "f64": np.float64}
    dynamic = " ".join(f"x_{name}: {name}[3];" for name in kinds)
    volatile = " ".join(f"y_{name}: {name}[3];" for name in kinds)
    moves = " ".join(f"transfer x_{name} >> y_{name};" for name in kinds)
    text = f"dynamic {{ {dynamic} }} volatile {{ {volatile} }} block entry {{ {moves} }}"
    inputs = {f"x_{name}": np.array([0, 1, 1], kind) for name, kind in kinds.items()}

    assert_agree(text, **inputs)


def test_loop_indices_are_values():
    text = """
    dynamic { x: i64; }
    volatile { y: i64; }
    block entry {
      loop count (i in 0..5) { op add(y, i) >> y; }
      op mul(y, x) >> y;
      return y;
    }
    """
    assert_agree(text, x=np.array(3))


HOSTILE = """
dynamic { int: f32[2]; INT: f32[2]; main: f32[2]; gl_x: f32[2]; a__b: f32[2]; a_b: f32[2]; memcpy: f32[2]; }
volatile { y: f32[2]; Y: f32[2]; __: f32[2]; inputs: f32[2]; }
block entry {
  assign static: f32[2];
  assign arena: f32[2];
  scope "*/ ??/" {
    op add(int, INT) >> static;
    barrier;
    op add(main, gl_x) >> arena;
  }
  scope "\\\\" { op add(a__b, a_b) >> y; }
  branch case;
  op mul(static, arena) >> Y;
  op mul(memcpy, Y) >> __;
  transfer __ >> inputs; // */ not an end ??/
  return y, Y, __, inputs;
}
block case { loop for (while in 0..2) { op add(y, y) >> y; } return; }
"""


def test_names_chosen_to_break_out():
    names = ("int", "INT", "main", "gl_x", "a__b", "a_b", "memcpy")

    assert_agree(HOSTILE, **{name: noise(2, seed=n) for n, name in enumerate(names)})


def test_recursion_is_refused_with_the_blocks_on_the_way_round():
    text = """
    dynamic { x: f32[2]; }
    block entry { branch one; return x; }
    block one { branch two; return; }
    block two { branch three; return; }
    block three { branch one; return; }
    """
    with pytest.raises(SynthesisError, match=r"block 'one' reaches itself \(one -> two -> three -> one\)") as caught:
        synthesised(text)

    assert caught.value.code == "branch-cycle"
