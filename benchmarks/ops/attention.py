"""One query over a cache of keys and values, compared with hand-written NumPy, one thread, f32.

Twelve heads of 64 elements, as in a small decoder. ``sdpa`` takes keys as [heads, keys, elements], ``attn`` as [keys,
heads, elements], the order in which a decoder's cache grows: both read them where they lie. The aim is 1.1 times NumPy.

Run: OPENBLAS_NUM_THREADS=1 python benchmarks/ops/attention.py
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

import numpy as np

import openinfer as oi
from openinfer.simulate import Simulator

Array = np.ndarray
Call = Callable[[], object]
HEADS, DEPTH, TURNS, REPEATS, AIM = 12, 64, 50, 31, 1.1


def noise(*shape: int, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def ours(statement: str, given: Mapping[str, Array], out: tuple[int, ...]) -> tuple[Call, Callable[[], Array]]:
    """Return a step that runs one operator `TURNS` times, and how to fetch its result."""
    constants = " ".join(f"{name}: f32[{', '.join(map(str, a.shape))}];" for name, a in given.items())
    text = f"constant {{ {constants} }} volatile {{ y: f32[{', '.join(map(str, out))}]; }}"
    program = oi.graph(f"{text} block entry {{ loop turns (i in 0..{TURNS}) {{ {statement} }} return; }}")
    executor = Simulator(oi.Model.from_arrays(dict(given)), program).make_executor()
    return executor.step, lambda: np.asarray(executor.fetch("y"))


def by_hand(q: Array, k: Array, v: Array, y: Array) -> Call:
    """Return attention of q [H, 1, D] over k [H, D, S] and v [H, S, D], views of any strides, into y [H, 1, D]."""
    scale = np.float32(1 / math.sqrt(q.shape[-1]))
    scaled, weights = np.empty(q.shape, np.float32), np.empty((len(q), 1, k.shape[-1]), np.float32)
    part = np.empty((len(q), 1, 1), np.float32)

    def run() -> None:
        np.multiply(q, scale, out=scaled)
        np.matmul(scaled, k, out=weights)
        np.max(weights, axis=-1, keepdims=True, out=part)
        np.subtract(weights, part, out=weights)
        np.exp(weights, out=weights)
        np.sum(weights, axis=-1, keepdims=True, out=part)
        np.matmul(weights, v, out=y)
        np.divide(y, part, out=y)

    return run


def sdpa(keys: int) -> tuple[Call, Callable[[], Array], Call, Array]:
    q, k, v = (noise(HEADS, count, DEPTH, seed=n) for n, count in enumerate((1, keys, keys)))
    own, fetch = ours("op sdpa(q, k, v) >> y;", {"q": q, "k": k, "v": v}, q.shape)
    y = np.empty(q.shape, np.float32)
    return own, fetch, by_hand(q, k.transpose(0, 2, 1), v, y), y


def attn(keys: int) -> tuple[Call, Callable[[], Array], Call, Array]:
    x = noise(1, HEADS * DEPTH, seed=0)
    k, v = (noise(keys, HEADS, DEPTH, seed=n) for n in (1, 2))
    own, fetch = ours("op attn(x, k, v) >> y;", {"x": x, "k": k, "v": v}, x.shape)
    y = np.empty(x.shape, np.float32)
    heads = (HEADS, 1, DEPTH)
    hand = by_hand(x.reshape(heads), k.transpose(1, 2, 0), v.transpose(1, 0, 2), y.reshape(heads))
    return own, fetch, hand, y


def repeated(run: Call) -> Call:
    def turns() -> None:
        for _ in range(TURNS):
            run()

    return turns


def medians(runs: Mapping[str, Call]) -> dict[str, float]:
    """Return median seconds of processor time of a turn, taken alternately and each first as often as the others."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    for turn in range(REPEATS):
        order = list(runs)
        for name in (*order[turn % len(order) :], *order[: turn % len(order)]):
            start = time.thread_time()
            runs[name]()
            times[name].append((time.thread_time() - start) / TURNS)
    return {name: float(np.median(each)) for name, each in times.items()}


def main() -> None:
    for name, make in (("sdpa", sdpa), ("attn", attn)):
        for keys in (256, 512, 1024):
            own, fetch, hand, y = make(keys)
            found = medians({"ours": own, "NumPy": repeated(hand)})
            np.testing.assert_allclose(fetch(), y, rtol=1e-4, atol=1e-5)
            ratio = found["ours"] / found["NumPy"]
            print(f"{name} {keys:5} keys {found['ours'] * 1e6:8.1f} us: {ratio:.2f} x NumPy (aim {AIM})")


if __name__ == "__main__":
    main()
