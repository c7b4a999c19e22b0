"""Runs the prefix tables example and compares it with NumPy: `python run.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from make_model import make

import openinfer as oi

HERE = Path(__file__).parent


def main() -> None:
    """Run one step, and compute the same products in NumPy."""
    make(HERE / "model.oinf")
    with oi.ModelLoader.open(HERE / "model.oinf") as model:
        executor = oi.Simulator(model).make_executor(oi.load_graph(HERE / "tables.oi"))
        x = np.random.default_rng(1).normal(size=(model.size_of("B"), model.size_of("D"))).astype(np.float32)
        executor.step(x=x)
        y, heads = executor.fetch("y", "heads")

        expected, total = x, np.zeros_like(heads)
        for layer in range(model.size_of("L")):
            expected = np.clip(expected @ model.load_tensor(f"W.{layer}"), 0, 6)
            for head in range(model.size_of("H")):
                total = total + expected @ model.load_tensor(f"attn.{head}.qkv.{layer}")
    print("y =", oi.format_truncated(y), "heads =", oi.format_truncated(heads))
    print("close to NumPy:", bool(np.allclose(y, expected, atol=1e-5) and np.allclose(heads, total, atol=1e-4)))


if __name__ == "__main__":
    main()
