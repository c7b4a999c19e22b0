"""Runs the yield and await example and compares it with NumPy: `python run.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from make_model import make

import openinfer as oi

HERE = Path(__file__).parent


def main() -> None:
    """Run one step with tracing: consumers' events carry their own track."""
    make(HERE / "model.oinf")
    with oi.ModelLoader.open(HERE / "model.oinf") as model:
        executor = oi.Simulator(model).make_executor(oi.load_graph(HERE / "streaming.oi"))
        signal = np.random.default_rng(1).normal(size=(model.size_of("B"), model.size_of("D"))).astype(np.float32)
        executor.insert(signal=signal)
        for node in executor.iterate():
            print(f"entry ran: {node.event.node_desc}")
        y, energy, peak = executor.fetch("y", "energy", "peak")
        first, second = (model.load_tensor(f"W.{n}") for n in range(2))
        expected = np.tanh(signal @ second) + np.clip(signal @ first, 0, 6)
    print("y =", oi.format_truncated(y), f"energy = {energy:.4f} peak = {peak:.4f}")
    print("close to NumPy:", bool(np.allclose(y, expected, atol=1e-5)))
    print("the readers saw the signal:", bool(np.isclose(energy, np.mean(signal**2)) and peak == np.abs(signal).max()))


if __name__ == "__main__":
    main()
