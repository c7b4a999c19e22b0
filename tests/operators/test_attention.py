"""Transformer operators in programs: caches that grow, settings from variables, named inputs, dropped outputs."""

from __future__ import annotations

import numpy as np
import pytest

import openinfer as oi
from openinfer.errors import ExecutionError, ValidationError
from openinfer.simulate import Simulator

HEADS, DEPTH, WIDTH = 2, 4, 8


def noise(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def attended(q, k, v):
    """Attention of one row q [H*D] over k and v [S, H, D], head by head."""
    rows = []
    for head, own in enumerate(q.reshape(HEADS, DEPTH)):
        weights = softmax(k[:, head] @ own / np.sqrt(DEPTH))
        rows.append(weights @ v[:, head])
    return np.concatenate(rows)


DECODER = f"""
dynamic {{ x: f32[1, {WIDTH}]; k: f16[{HEADS}, {DEPTH}]; v: f16[{HEADS}, {DEPTH}]; }}
constant {{ W: f32[{WIDTH}, {WIDTH}]; }}
volatile {{ keys: f16[1, {HEADS}, {DEPTH}]; values: f16[1, {HEADS}, {DEPTH}]; y: f32[1, {WIDTH}]; }}
persistent {{ t: i64; K(i): f16[{HEADS}, {DEPTH}] @table; V(i): f16[{HEADS}, {DEPTH}] @table; }}
block entry {{
  assign n: i64;
  cache.read t >> n;
  cache.write k >> K[n];
  cache.write v >> V[n];
  cache.read K[0..n+1] >> keys;
  cache.read V[0..n+1] >> values;
  op attn(x, keys, values, W) >> y;
  cache.increment t;
  return y;
}}
"""


def test_attn_over_a_cache_that_grows_by_a_row_each_step():
    w = noise(WIDTH, WIDTH, seed=9)
    executor = Simulator(oi.Model.from_arrays({"W": w}), oi.graph(DECODER)).make_executor()
    keys, values = noise(5, HEADS, DEPTH, dtype=np.float16), noise(5, HEADS, DEPTH, seed=1, dtype=np.float16)
    for step in range(5):
        x = noise(1, WIDTH, seed=10 + step)
        executor.step(x=x, k=keys[step], v=values[step])
        expected = attended((x @ w)[0], keys[: step + 1].astype(np.float32), values[: step + 1].astype(np.float32))
        np.testing.assert_allclose(executor.fetch("y")[0], expected, rtol=1e-4, atol=1e-5)


def grouped(q, k, v):
    """Attention of rows q [Hq, D] over k [S, Hkv, D] and v [S, Hkv, V] in double precision, head by head."""
    q, k, v = (each.astype(np.float64) for each in (q, k, v))
    share = len(q) // k.shape[1]
    shares = [softmax(k[:, head // share] @ row / np.sqrt(row.size)) for head, row in enumerate(q)]
    return np.stack([weights @ v[:, head // share] for head, weights in enumerate(shares)])


FLOATS = """
dynamic { q: f32[1, 24]; h: f32[6, 1, 4]; k: f32[2, 4]; v: f32[2, 3]; }
volatile { keys: f32[1, 2, 4]; values: f32[1, 2, 3]; y: f32[1, 18]; z: f32[6, 1, 3]; }
persistent { t: i64; K(l, i): f32[2, 4] @table @fixed(l=3); V(l, i): f32[2, 3] @table @fixed(l=3); }
block entry {
  assign n: i64;
  cache.read t >> n;
  loop layers (l in 0..3) {
    cache.write k >> K[l, n];
    cache.write v >> V[l, n];
    cache.read K[l, 0..n+1] >> keys;
    cache.read V[l, 0..n+1] >> values;
    op attn(q, keys, values) >> y;
    op transpose(keys, perm=[1, 0, 2]) >> keys;
    op transpose(values, perm=[1, 0, 2]) >> values;
    op sdpa(h, keys, values, CAUSAL) >> z;
  }
  cache.increment t;
  return y, z;
}
"""


@pytest.mark.parametrize("causal", ["causal=true", "causal=false"])
def test_one_query_over_heads_that_share_a_cache_as_it_grows(causal):
    executor = Simulator(oi.Model.from_arrays({}), oi.graph(FLOATS.replace("CAUSAL", causal))).make_executor()
    keys, values = noise(9, 2, 4), noise(9, 2, 3, seed=1)
    for step in range(9):
        q = noise(6, 4, seed=10 + step)
        executor.step(q=q.reshape(1, 24), h=q[:, None], k=keys[step], v=values[step])
        expected = grouped(q, keys[: step + 1], values[: step + 1])
        np.testing.assert_allclose(executor.fetch("y").reshape(6, 3), expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(executor.fetch("z")[:, 0], expected, rtol=1e-5, atol=1e-6)


def test_weights_of_a_query_may_be_too_great_for_exponentials():
    executor = Simulator(oi.Model.from_arrays({}), oi.graph(FLOATS.replace("CAUSAL", "causal=true"))).make_executor()
    q, keys, values = noise(6, 4) * 100, noise(3, 2, 4) * 100, noise(3, 2, 3, seed=1)
    for step in range(3):
        executor.step(q=q.reshape(1, 24), h=q[:, None], k=keys[step], v=values[step])
    expected = grouped(q, keys, values)
    np.testing.assert_allclose(executor.fetch("y").reshape(6, 3), expected, rtol=1e-3, atol=1e-4)


FIXED = """
dynamic { q: f32[2, 1, 4]; k: f32[2, 6, 4]; v: f32[2, 6, 4]; n: i64; }
volatile { y: f32[2, 1, 4]; }
block entry { op sdpa(q=q, k=k, v=v, kv_len=n) >> y; return y; }
"""


def test_the_length_of_a_cache_of_fixed_size_comes_from_a_variable():
    executor = Simulator(oi.Model.from_arrays({}), oi.graph(FIXED)).make_executor()
    q, k, v = noise(2, 1, 4), noise(2, 6, 4, seed=1), noise(2, 6, 4, seed=2)
    for valid in (1, 4, 6, 4):
        executor.step(q=q, k=k, v=v, n=np.int64(valid))
        weights = softmax(q @ k[:, :valid].transpose(0, 2, 1) / 2)
        np.testing.assert_allclose(executor.fetch("y"), weights @ v[:, :valid], rtol=1e-4, atol=1e-5)


def test_a_length_past_the_cache_is_an_error_that_names_the_statement():
    executor = Simulator(oi.Model.from_arrays({}), oi.graph(FIXED)).make_executor()
    given = {"q": noise(2, 1, 4), "k": noise(2, 6, 4), "v": noise(2, 6, 4)}
    with pytest.raises(ExecutionError, match=r"op sdpa.*kv_len is 7, expected 0\.\.6"):
        executor.step(**given, n=np.int64(7))


def test_outputs_may_be_dropped_and_states_updated_in_place():
    text = """
    dynamic { x: f32[2, 3]; }
    constant { w: f32[16, 3]; r: f32[16, 4]; }
    volatile { best: f32[2, 1]; h: f32[2, 4]; c: f32[2, 4]; }
    block entry { op topk(x, k=1) >> best; op lstm_cell(x, h, c, w, r) >> h, c; return best, h, c; }
    """
    w, r, x = noise(16, 3), noise(16, 4, seed=1), noise(2, 3, seed=2)
    executor = Simulator(oi.Model.from_arrays({"w": w, "r": r}), oi.graph(text)).make_executor()
    executor.step(x=x)
    np.testing.assert_array_equal(executor.fetch("best"), x.max(1, keepdims=True))
    gates = 1 / (1 + np.exp(-(x @ w.T)[:, :12]))
    memory = gates[:, :4] * np.tanh((x @ w.T)[:, 12:])
    np.testing.assert_allclose(executor.fetch("c"), memory, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(executor.fetch("h"), gates[:, 4:8] * np.tanh(memory), rtol=1e-5, atol=1e-6)


def test_a_negative_exponent_names_the_statement():
    text = "dynamic { a: i32[2]; b: i32[2]; } block entry { op pow(a, b) >> a; return a; }"
    executor = Simulator(oi.Model.from_arrays({}), oi.graph(text)).make_executor()
    with pytest.raises(
        ExecutionError, match=r"op pow\(a: i32\[2\], b: i32\[2\]\) >> a: .*exponent -1 at \[1\] is negative"
    ) as caught:
        executor.step(a=np.array([2, 2], np.int32), b=np.array([3, -1], np.int32))
    assert caught.value.code == "out-of-range"


def test_shapes_that_do_not_fit_are_found_before_the_program_runs():
    text = (
        "dynamic { q: f32[3, 4, 8]; k: f32[2, 5, 8]; y: f32[3, 4, 8]; } block entry { op sdpa(q, k, k) >> y; return; }"
    )
    with pytest.raises(ValidationError, match="3 query heads are not a multiple of 2"):
        Simulator(oi.Model.from_arrays({}), oi.graph(text))
