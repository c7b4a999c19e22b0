"""Runs a few steps of the auto-dim example and prints the growing matrix: `python run.py`."""

from __future__ import annotations

from pathlib import Path

from make_model import make

import openinfer as oi

HERE = Path(__file__).parent


def main() -> None:
    """Each step adds a row and a column, and one to every cell; then the matrix is saved, reset and restored."""
    make(HERE / "model.oinf")
    with oi.ModelLoader.open(HERE / "model.oinf") as model:
        executor = oi.Simulator(model).make_executor(oi.load_graph(HERE / "growing.oi"))
        for step in range(1, 4):
            executor.step()
            matrix = executor.fetch("A[]")
            print(f"step {step}: {matrix.shape[0]} x {matrix.shape[1]}, row 0 = {executor.fetch('row').tolist()}")
        print(matrix)
        state = executor.snapshot()
        executor.reset()
        print("after reset:", executor.fetch("A[]").shape)
        executor.restore(state)
        print("after restore:", executor.fetch("A[]").shape)


if __name__ == "__main__":
    main()
