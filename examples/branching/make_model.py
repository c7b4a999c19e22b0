"""The model of the branching example, two matrices: `python make_model.py [FILE]`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from openinfer_oinf import save_file

SIZES = {"B": 2, "D": 4}


def make(path: str | Path) -> None:
    """Write the model."""
    rng = np.random.default_rng(0)
    shape = (SIZES["D"], SIZES["D"])
    save_file({f"W.{n}": rng.normal(size=shape).astype(np.float32) for n in range(2)}, path, sizevars=SIZES)


if __name__ == "__main__":
    make(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("model.oinf"))
