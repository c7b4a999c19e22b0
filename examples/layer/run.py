"""Runs one dense layer, the example of docs/architecture/life: `python run.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from make_model import W, make

import openinfer as oi

HERE = Path(__file__).parent


def main() -> None:
    """Run one step and compare it with NumPy."""
    executor = oi.Simulator(make()).make_executor(oi.load_graph(HERE / "layer.oi"))
    x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 64)
    executor.step(x=x)
    y = executor.fetch("y")
    print("y =", oi.format_truncated(y))
    print("close to NumPy:", bool(np.allclose(y, np.maximum(x @ W, 0), atol=1e-5)))


if __name__ == "__main__":
    main()
