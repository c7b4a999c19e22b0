"""Decodes eight tokens with a cache and compares with attention over the whole sequence in NumPy: `python run.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from make_model import SIZES, make

import openinfer as oi

HERE = Path(__file__).parent


def decoded(model: oi.Model, tokens: np.ndarray) -> np.ndarray:
    """Return what every token becomes when each attends to itself and those before, in f32 with f16 keys and values."""
    heads, width = SIZES["H"], SIZES["Dh"]
    h = tokens
    for layer in range(SIZES["L"]):
        query, key, value = (h @ model.load_tensor(f"{what}.{layer}") for what in ("query", "key", "value"))
        q = query.reshape(-1, heads, width)
        k, v = (part.astype(np.float16).astype(np.float32).reshape(-1, heads, width) for part in (key, value))
        scores = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(width)
        scores = np.where(np.tril(np.ones(scores.shape[1:], bool)), scores, -np.inf)
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares = powers / powers.sum(axis=-1, keepdims=True)
        h = np.einsum("hij,jhd->ihd", shares, v).reshape(h.shape)
    return h


def main() -> None:
    """Run both programs; the caches advance from step to step."""
    make(HERE / "model.oinf")
    tokens = np.random.default_rng(1).normal(size=(8, SIZES["D"])).astype(np.float32)
    with oi.ModelLoader.open(HERE / "model.oinf") as model:
        once = oi.Simulator(model).make_executor(oi.load_graph(HERE / "step.oi"))
        for token in tokens[:2]:
            once.step(x=token[None])
        print("step.oi: step =", once.fetch("step"), "z =", oi.format_truncated(once.fetch("z")))

        executor = oi.Simulator(model).make_executor(oi.load_graph(HERE / "decode.oi"))
        rows = []
        for token in tokens:
            executor.step(x=token[None])
            rows.append(executor.fetch("z")[0])
        print("decode.oi: step =", executor.fetch("step"), "keys of layer 0:", executor.fetch("K[0]").shape)
        print("close to NumPy:", bool(np.allclose(rows, decoded(model, tokens), atol=2e-3)))


if __name__ == "__main__":
    main()
