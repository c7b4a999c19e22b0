"""Which accesses with ranges make a table larger: generated C and device c agree with the simulator on cpu."""

from __future__ import annotations

import numpy as np
import pytest
from generated_c import assert_steps_agree, needs_gcc

from openinfer.dsl import graph
from openinfer.model import Model
from openinfer.simulate import Simulator
from openinfer.simulate.execute.whole_program import WholeStateProgram

pytestmark = needs_gcc

# Entries that were never written hold 1: the sum over all entries that are there counts them.
LINE = """
dynamic { count: i32; start: i32; end: i32; }
volatile { there: f32; }
persistent { K(t): f32 @table @init(1.0); }
block entry {
  cache.read K[0..count] >> given;
  cache.write given >> K[start..end];
  cache.read K[0..] >> kept;
  op sum_axis(kept, axes=[0]) >> there;
  return there;
}
"""
GRID = """
dynamic { count: i32; row: i32; start: i32; end: i32; }
volatile { there: f32; }
persistent { K(l, t): f32 @table @init(1.0); }
block entry {
  cache.read K[0, 0..count] >> given;
  cache.write given >> K[row, start..end];
  cache.read K[0.., 0..] >> kept;
  op sum_axis(kept, axes=[0, 1]) >> there;
  return there;
}
"""
GROWING = """
dynamic { count: i32; start: i32; end: i32; by: i32; }
volatile { there: f32; }
persistent { K(t, i): f32[2] @table @auto_dim(i) @init(1.0); }
block entry {
  cache.read K[0..count, by] >> given;
  cache.write given >> K[start..end, by];
  cache.read K[0.., 0] >> kept;
  op sum_axis(kept, axes=[0, 1]) >> there;
  return there;
}
"""
SELECTED = """
dynamic { row: i32; creates: bool; }
volatile { there: f32; }
persistent { K(t, i): f32[2] @table @auto_dim(i) @init(1.0); }
block create { cache.read K[row, 0] >> whole; return; }
block other { return; }
block entry {
  branch creates create other;
  cache.read K[row, 1..2] >> part;
  cache.read K[0.., 0] >> kept;
  op sum_axis(kept, axes=[0, 1]) >> there;
  return there;
}
"""
WRITTEN_OUT = """
dynamic { x: f32[0]; y: f32[2]; }
volatile { there: f32; }
persistent { K(t): f32 @table @init(1.0); V(l, t): f32 @table @init(1.0); }
block entry {
  cache.write x >> K[5..5];
  cache.write x >> V[3, 2..2];
  cache.write y >> V[0, 1..3];
  cache.read K[0..] >> kept;
  cache.read V[0.., 0..] >> others;
  op sum_axis(kept, axes=[0]) >> some;
  op sum_axis(others, axes=[0, 1]) >> more;
  op add(some, more) >> there;
  return there;
}
"""
LIMITS = {"K.t": 8}


def steps_of(**inputs):
    return {name: np.array(values, np.bool_ if name == "creates" else np.int32) for name, values in inputs.items()}


CASES = [
    pytest.param(
        LINE,
        LIMITS,
        steps_of(count=[0, 3, 2, 0, 3, 5, 0], start=[5, 0, 0, 6, 2, 0, 8], end=[5, 3, -1, 6, 5, 5, 8]),
        [0, 3, 3, 3, 5, 5, 5],
        id="a range",
    ),
    pytest.param(
        GRID,
        LIMITS | {"l": 4},
        steps_of(count=[0, 3, 0, 2], row=[2, 1, 3, 1], start=[5, 0, 1, 0], end=[5, 3, 1, -1]),
        [0, 6, 6, 6],
        id="one index and a range",
    ),
    pytest.param(
        GROWING,
        LIMITS | {"i": 4},
        steps_of(count=[0, 1, 2, 0], start=[2, 2, 0, 7], end=[2, 3, -1, 7], by=[3, 3, 3, 4]),
        [0, 15, 15, 18],
        id="ranges of entries that grow",
    ),
    pytest.param(
        SELECTED,
        LIMITS | {"i": 4},
        steps_of(row=[2, 1, 3], creates=[False, True, False]),
        [0, 4, 4],
        id="one index and a part of the entry",
    ),
]


@pytest.mark.parametrize(("text", "limits", "inputs", "there"), CASES)
def test_a_table_grows_by_entries_that_are_there_only(text, limits, inputs, there, monkeypatch):
    assert_steps_agree(text, limits=limits, steps=len(there), **inputs)

    ran, original = [], WholeStateProgram.run
    monkeypatch.setattr(WholeStateProgram, "run", lambda self: ran.append(original(self)) or ran[-1])
    devices = [
        Simulator(Model.from_arrays({}), graph(text), device=device, limits=limits).make_executor()
        for device in ("cpu", "c")
    ]
    for step, expected in enumerate(there):
        for executor in devices:
            executor.step(**{name: stacked[step] for name, stacked in inputs.items()})
            assert executor.fetch("there") == expected, (step, executor)
        np.testing.assert_array_equal(devices[1].fetch("K"), devices[0].fetch("K"))
    assert ran == [True] * len(there)


def test_empty_ranges_of_numbers_change_nothing():
    x, y = np.zeros((2, 0), np.float32), np.full((2, 2), 1, np.float32)

    plan = assert_steps_agree(WRITTEN_OUT, limits={"K.t": 8, "V.t": 8, "l": 4}, steps=2, x=x, y=y)

    assert {register.name for register in plan.registers if register.is_kept} >= {"K.t", "V.l", "V.t"}
