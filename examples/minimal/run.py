"""Runs the minimal example and prints the first results: `python run.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from make_model import make

import openinfer as oi

HERE = Path(__file__).parent


def main() -> None:
    """Make the model, insert an input, run one step, fetch the output."""
    make(HERE / "model.oinf")
    with oi.ModelLoader.open(HERE / "model.oinf") as model:
        executor = oi.Simulator(model, device=oi.Device.CPU).make_executor(oi.load_graph(HERE / "minimal.oi"))
        x = np.random.default_rng(1).uniform(-10, 10, model.size_of("B")).astype(np.float32)
        executor.step(x=x)
        y = executor.fetch("y")
        expected = np.float32(5) * (x + model.load_tensor("a"))
    print("y =", oi.format_truncated(y))
    print("equal to NumPy:", bool(np.array_equal(y, expected)))


if __name__ == "__main__":
    main()
