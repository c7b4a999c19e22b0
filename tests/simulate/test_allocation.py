"""After the first step a step allocates no array unless a shape grew, and memory is what variables and weights need.

NumPy reports its arrays to `tracemalloc`, so that even one that is gone again at the end of a step shows in the peak.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Generator
from contextlib import contextmanager

import numpy as np
import pytest

import openinfer as oi
from openinfer.simulate import Simulator

SMALL = 48 << 10
"""Bytes for Python's own objects; every array of the programs below takes more."""

PER_OPERATOR = 8 << 10
"""Bytes of Python's own objects for a bound operator: calls on views of its arrays, one for each block of elements."""

PER_SHAPE = 2 << 10
"""Bytes of Python's own objects that an operator keeps for a shape which it met, of the few for which it does."""

WIDE = "f32[256, 256]"


def made(text: str, **arrays: np.ndarray):
    return Simulator(oi.Model.from_arrays(arrays), oi.graph(text)).make_executor()


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


class Peak:
    """Bytes in use at the worst moment beyond those at the start."""

    nbytes = 0


@contextmanager
def peak() -> Generator[Peak]:
    found = Peak()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        yield found
        found.nbytes = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


def test_an_array_that_a_step_made_would_show():
    with peak() as found:
        np.empty((256, 256), np.float32)
    assert found.nbytes > 256 * 256 * 4


STATEMENTS = {
    "elementwise": "op add(x, w) >> y; op exp(y) >> y; op mul(y, x) >> y; op relu(y) >> y; op gt(x, w) >> b; "
    "op where(b, x, w) >> y; op sigmoid(y) >> y; op tanh(y) >> y;",
    "in place": "op softmax(y) >> y; op matmul(y, y) >> y; op transpose(y) >> y;",
    "matrix products": "op matmul(x, w) >> y; op linear(y, w, v) >> y; op matmul(x, w, trans_b=true) >> y;",
    "rows": "op softmax(x) >> y; op layer_norm(y, v, v) >> y; op rms_norm(y, v) >> y; op gelu(y) >> y;",
    "reductions": "op sum_axis(x, axes=[1]) >> v2; op max_axis(x, axes=[1]) >> v2; op mean_axis(x, axes=[1]) >> v2;",
    "conversions": "op cast(x, to=f16) >> h; op add(h, h) >> h; op cast(h, to=f32) >> y;",
    "loops": "loop turns (i in 0..4) { op add(y, W[i]) >> y; }",
    "branches": "op is_finite(x) >> c; branch c up down; branch c down up;",
    "transfers": "transfer x >> y; transfer y >> z;",
    "plain persistent variables": "cache.write x >> P; cache.read P >> y; cache.increment t;",
    "a table of fixed size": "cache.write v >> K[1, 2]; cache.read K[1, 0..200] >> rows; op add(rows, rows) >> rows2;",
    "a row of a table": "cache.write v >> K[0, 1]; cache.read K[0, 1] >> v2;",
}
TEXT = f"""
dynamic {{ x: {WIDE}; }}
constant {{ w: {WIDE}; v: f32[256]; W(i): {WIDE} @pattern("W.{{i}}"); }}
volatile {{ y: {WIDE}; z: {WIDE}; b: bool[256, 256]; v2: f32[256]; h: f16[256, 256]; c: bool; rows: f32[200, 256];
  rows2: f32[200, 256]; }}
persistent {{ t: i64; P: {WIDE}; K(l, i): f32[256] @table @fixed(l=2, i=256); }}
block up {{ op add(x, w) >> y; return; }}
block down {{ op sub(x, w) >> y; return; }}
block entry {{ STATEMENTS return; }}
"""


@pytest.mark.parametrize("statements", STATEMENTS.values(), ids=STATEMENTS.keys())
def test_a_step_allocates_no_array(statements: str):
    weights = {"w": noise(256, 256), "v": noise(256), **{f"W.{i}": noise(256, 256, seed=i) for i in range(4)}}
    executor, x = made(TEXT.replace("STATEMENTS", statements), **weights), noise(256, 256, seed=9)
    for _ in range(3):
        executor.step(x=x)
    with peak() as found:
        for _ in range(3):
            executor.step(x=x)
    assert found.nbytes < SMALL


def test_a_convolution_allocates_no_array():
    text = """
    dynamic { x: f32[1, 8, 64, 64]; } constant { w: f32[8, 8, 3, 3]; } volatile { y: f32[1, 8, 64, 64]; }
    block entry { op conv2d(x, w, padding=[1, 1, 1, 1]) >> y; return; }
    """
    executor, x = made(text, w=noise(8, 8, 3, 3)), noise(1, 8, 64, 64)
    executor.step(x=x)
    with peak() as found:
        executor.step(x=x)
    assert found.nbytes < SMALL


GROWING = """
dynamic { k: f32[4096]; q: f32[4096, 1]; }
volatile { keys: f32[1, 4096]; }
persistent { t: i64; K(i): f32[4096] @table; }
block entry {
  assign n: i64;
  cache.read t >> n;
  cache.write k >> K[n];
  cache.read K[0..n+1] >> keys;
  op matmul(keys, q) >> keys;
  cache.increment t;
  return;
}
"""


def test_a_cache_that_grows_allocates_when_its_room_doubles_alone():
    executor, k, q = made(GROWING), noise(4096), noise(4096, 1)
    for _ in range(33):
        executor.step(k=k, q=q)
    with peak() as found:
        for _ in range(64 - 33):
            executor.step(k=k, q=q)
    assert found.nbytes < SMALL + (64 - 33) * PER_SHAPE < 33 * 4096 * 4
    with peak() as found:
        executor.step(k=k, q=q)
    assert found.nbytes > 128 * 4096 * 4


def test_memory_is_one_buffer_for_each_variable_and_the_weights_that_are_touched():
    count, nbytes = 12, 512 * 512 * 4
    variables = " ".join(f"v{i}: f32[512, 512];" for i in range(count))
    chain = " ".join(f"op matmul(v{i}, w) >> v{i + 1}; op relu(v{i + 1}) >> v{i + 1};" for i in range(count - 1))
    text = f"constant {{ w: f32[512, 512]; }} volatile {{ {variables} }} block entry {{ {chain} return; }}"
    model, program = oi.Model.from_arrays({"w": noise(512, 512)}), oi.graph(text)
    Simulator(model, program).make_executor().step()
    with peak() as found:
        executor = Simulator(model, program).make_executor()
        for _ in range(3):
            executor.step()
    # w is the model's own array; `relu` needs scratch memory, a mask and what it mixes.
    objects = SMALL + 2 * (count - 1) * PER_OPERATOR
    assert count * nbytes <= found.nbytes < (count + 2) * nbytes + objects < (count + 3) * nbytes


def test_earlier_contents_of_a_growing_result_are_released():
    text = GROWING.replace("op matmul(keys, q) >> keys;", "op mul(keys, half) >> keys;")
    text = text.replace("volatile {", "volatile { half: f32 @init(0.5);")
    steps, row = 200, 4096 * 4
    executor, k, q = made(text), noise(4096), noise(4096, 1)
    with peak() as found:
        for _ in range(steps):
            executor.step(k=k, q=q)
    np.testing.assert_array_equal(executor.fetch("keys"), np.tile(k * np.float32(0.5), (steps, 1)))
    # The table and the result have room for 256 rows, and the room before may be there while a larger one is filled.
    assert found.nbytes < 6 * 256 * row


@pytest.mark.parametrize("close", [True, False])
def test_the_memory_of_an_executor_goes_with_it(close: bool) -> None:
    program = "dynamic { x: f32[N]; } block entry { op exp(x) >> t; op exp(t) >> y; return y; }"
    simulator = oi.Simulator(oi.Model.from_arrays({}, sizevars={"N": 1 << 20}), program)
    gc.disable()
    tracemalloc.start()
    try:
        executor = simulator.make_executor()
        for size in (1 << 20, 1 << 19):
            executor.step(x=np.ones(size, np.float32))
        assert tracemalloc.get_traced_memory()[0] > 3 << 22
        if close:
            executor.close()
        del executor
        assert tracemalloc.get_traced_memory()[0] < 1 << 20
    finally:
        tracemalloc.stop()
        gc.enable()
