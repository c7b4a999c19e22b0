"""Resets of single entries of caches in generated C: sizes are what the entries that are left say."""

from __future__ import annotations

import numpy as np
import pytest
from generated_c import assert_steps_agree, needs_gcc, noise, synthesised

pytestmark = needs_gcc

STEPS = 40

CELLS = """
dynamic { x: f32[2]; i: i32; j: i32; stores: bool; }
persistent { K(l, t): f32[2] @table; }
block entry { branch stores store clear; cache.read K[] >> all; return all; }
block store { cache.write x >> K[i, j]; return; }
block clear { cache.reset K[i]; return; }
"""

STACK = """
dynamic { x: f32[2]; i: i32; stores: bool; }
persistent { n: i32; V(t): f32[2] @table; }
block entry {
  branch stores push pop;
  cache.read V[i] >> one;
  cache.read V[0..] >> all;
  return one, all;
}
block push { cache.write x >> V[n]; cache.increment n; return; }
block pop { cache.decrement n; cache.reset V[n]; return; }
"""

RANGES = """
dynamic { x: f32[3, 2]; i: i32; j: i32; stores: bool; }
persistent { V(t): f32[2] @table @fixed(t=8); K(l, t): f32[2] @table @fixed(l=4); }
block entry {
  branch stores store clear;
  cache.read V[0..] >> all;
  cache.read K[i, ] >> row;
  return all, row;
}
block store { cache.write x >> V[i..i + 3]; cache.write x >> K[i, j..j + 3]; return; }
block clear { cache.reset V[i]; cache.reset K[i]; return; }
"""


@pytest.mark.parametrize("program", [CELLS, STACK, RANGES], ids=["cells", "a stack", "ranges and fixed indices"])
def test_sizes_after_resets_agree_with_the_simulator(program):
    random = np.random.default_rng(3)
    stores = random.random(STEPS) < 0.6
    if program is STACK:
        stores = np.tile([True, True, True, False, False, True, True, False, True, False, False, False], 4)[:STEPS]
    shape = (3, 2) if program is RANGES else (2,)
    inputs = {"x": noise(STEPS, *shape), "i": random.integers(0, 4, STEPS).astype("i4"), "stores": stores}
    if "j: i32" in program:
        inputs["j"] = random.integers(0, 5, STEPS).astype("i4")
    limits = {"t": 9} if program is STACK else {"l": 4, "t": 9}
    assert_steps_agree(program, limits=limits, steps=STEPS, **inputs)


def test_which_entries_there_are_is_kept_only_where_sizes_depend_on_it():
    states = {
        program: [s.name for s in synthesised(program, limits={"t": 9, "l": 4})[2].plan.states]
        for program in (CELLS, RANGES)
    }
    assert states[CELLS] == ["K", "K.there"]
    assert states[RANGES] == ["V", "K", "K.there"]
