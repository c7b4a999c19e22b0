"""A statement that fails ends the step, though nobody reads its result, wherever the program runs."""

from __future__ import annotations

import numpy as np
import pytest

import openinfer as oi
from openinfer.errors import DeviceError, ExecutionError

ROW = """
dynamic { x: f32[4, 2]; i: i64[2]; }
volatile { z: f32[4, 2]; }
block entry { op embedding(i, x) >> y; op neg(x) >> z; return z; }
"""
ENTRY = """
dynamic { x: f32[2]; t: i32; }
constant { W(l): f32[2] @pattern("W.{l}"); }
volatile { z: f32[2]; }
block entry { transfer W[t] >> y; op neg(x) >> z; return z; }
"""
POWER = """
dynamic { x: f32[2]; e: i32[2]; }
volatile { z: f32[2]; }
block entry { op pow(e, e) >> y; op neg(x) >> z; return z; }
"""
ERASED = """
dynamic { x: f32[2]; t: i32; }
volatile { z: f32[2]; }
persistent { K(l): f32[2] @init(1.0) @table @fixed(l=4); }
block entry { cache.write x >> K[t]; cache.reset K; op neg(x) >> z; return z; }
"""
CONSTANT = """
dynamic { x: f32[2]; }
constant { c: i32[2] @init(-1); }
volatile { z: f32[2]; }
block entry { op pow(c, c) >> y; op neg(x) >> z; return z; }
"""
CASES = {
    "an index of an operator": (ROW, {"x": np.ones((4, 2), np.float32)}, "i", np.int64([3, 0]), np.int64([0, 4])),
    "an exponent": (POWER, {"x": np.ones(2, np.float32)}, "e", np.int32([1, 2]), np.int32([1, -2])),
    "a write to a cache that is erased": (ERASED, {"x": np.ones(2, np.float32)}, "t", np.int32(3), np.int32(4)),
    "an entry of a table": (ENTRY, {"x": np.ones(2, np.float32)}, "t", np.int32(1), np.int32(2)),
}


@pytest.mark.parametrize("device", ["cpu", "c", "vulkan"])
@pytest.mark.parametrize("case", CASES)
def test_the_step_ends_with_the_error_and_the_next_one_runs(device: str, case: str) -> None:
    text, inputs, name, right, wrong = CASES[case]
    model = oi.Model.from_arrays({f"W.{layer}": np.ones(2, np.float32) for layer in range(2)})
    try:
        executor = oi.Simulator(model, oi.graph(text), device=device).make_executor()
    except DeviceError as error:
        pytest.skip(str(error))
    with executor:
        executor.step(**inputs, **{name: right})
        with pytest.raises(ExecutionError):
            executor.step(**inputs, **{name: wrong})
        executor.step(**inputs, **{name: right})
        assert np.all(executor.fetch("z") == -1)


@pytest.mark.parametrize("device", ["cpu", "c", "vulkan"])
def test_what_is_computed_of_constants_fails_too(device: str) -> None:
    try:
        executor = oi.Simulator(oi.Model.from_arrays({}), oi.graph(CONSTANT), device=device).make_executor()
    except DeviceError as error:
        pytest.skip(str(error))
    with executor, pytest.raises(ExecutionError, match=r"out of range|negative"):
        executor.step(x=np.ones(2, np.float32))
