"""A decoder's key cache over many steps, compared with a hand-written NumPy cache with room for all of them.

Every step stores a row for each layer and multiplies a query with all rows so far, so that no two steps have the same
shapes. The ratio at the end of the run shows whether the cost of a step depends on how far the cache has grown; that of
all steps counts also the first ones, which have little to compute. Times are processor time.

Run: OPENBLAS_NUM_THREADS=1 python benchmarks/runtime/cache_decode.py
"""

from __future__ import annotations

import time

import numpy as np

import openinfer as oi
from openinfer.dsl import graph
from openinfer.simulate import Simulator

LAYERS, STEPS, WIDTH, WINDOW = 12, 4096, 768, 128
TEXT = f"""
dynamic {{ k: f32[{WIDTH}]; q: f32[{WIDTH}, 1]; }}
volatile {{ scores: f32[1, {WIDTH}]; }}
persistent {{ t: i64; K(l, i): f32[{WIDTH}] @table @fixed(l={LAYERS}); }}
block entry {{
  assign n: i64;
  cache.read t >> n;
  loop layers (l in 0..{LAYERS}) {{
    cache.write k >> K[l, n];
    cache.read K[l, 0..n+1] >> scores;
    op matmul(scores, q) >> scores;
  }}
  cache.increment t;
  return;
}}
"""


def by_hand(cache: np.ndarray, scores: np.ndarray, t: int, k: np.ndarray, q: np.ndarray) -> None:
    for layer in range(LAYERS):
        cache[layer, t] = k
        np.matmul(cache[layer, : t + 1], q, out=scores[: t + 1])


def measured(keys: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return the seconds of every step, simulated and by hand, in turns so that both meet the same machine."""
    executor = Simulator(oi.Model.from_arrays({}), graph(TEXT)).make_executor()
    cache = np.zeros((LAYERS, STEPS, WIDTH), np.float32)
    scores = np.empty((STEPS, 1), np.float32)
    times = np.empty((STEPS, 2))
    for t in range(STEPS):
        for way in (0, 1) if t % 2 else (1, 0):
            start = time.thread_time()
            if way == 0:
                executor.step(k=keys[t], q=q)
            else:
                by_hand(cache, scores, t, keys[t], q)
            times[t, way] = time.thread_time() - start
    np.testing.assert_allclose(executor.fetch("scores"), scores, rtol=1e-4, atol=1e-4)
    return times


def main() -> None:
    rng = np.random.default_rng(0)
    keys, q = rng.normal(size=(STEPS, WIDTH)).astype(np.float32), rng.normal(size=(WIDTH, 1)).astype(np.float32)
    times = measured(keys, q) * 1e6
    for name, start in [("first", 0), ("middle", STEPS // 2), ("last", STEPS - WINDOW)]:
        ours, hand = np.median(times[start : start + WINDOW], axis=0)
        print(f"{name:6} {WINDOW} steps: {ours:8.1f} us a step, by hand {hand:8.1f} us, ratio {ours / hand:.2f}")
    ours, hand = times.sum(axis=0) / 1e6
    print(f"all {STEPS} steps:   {ours:8.2f} s,         by hand {hand:8.2f} s,  ratio {ours / hand:.2f}")
    print("aim for the last and for all: 1.3")


if __name__ == "__main__":
    main()
