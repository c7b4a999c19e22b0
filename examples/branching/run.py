"""Runs the branching example down both ways and prints which blocks ran: `python run.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from make_model import make

import openinfer as oi

HERE = Path(__file__).parent


def main() -> None:
    """Insert a finite input, then one with a NaN."""
    make(HERE / "model.oinf")
    with oi.ModelLoader.open(HERE / "model.oinf") as model:
        executor = oi.Simulator(model).make_executor(oi.load_graph(HERE / "branching.oi"))
        x = np.ones((model.size_of("B"), model.size_of("D")), np.float32)
        for name, value in (("finite", 1.0), ("with a NaN", np.nan)):
            x[0, 0] = value
            executor.insert(x=x)
            blocks = list(dict.fromkeys(node.event.block_name for node in executor.iterate()))
            print(f"{name}: blocks {', '.join(blocks)}; y =", oi.format_truncated(executor.fetch("y")))


if __name__ == "__main__":
    main()
