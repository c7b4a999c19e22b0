"""The model of the cache example, projections of a small decoder: `python make_model.py [FILE]`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from openinfer_oinf import save_file

SIZES = {"B": 1, "D": 32, "H": 4, "Dh": 8, "L": 3}


def make(path: str | Path) -> None:
    """Write the model: W.* for `step.oi`; query.*, key.* and value.* for `decode.oi`."""
    rng = np.random.default_rng(0)
    width = SIZES["D"]
    names = [f"{what}.{layer}" for what in ("W", "query", "key", "value") for layer in range(SIZES["L"])]
    scale = width**-0.5
    save_file(
        {name: (scale * rng.normal(size=(width, width))).astype(np.float32) for name in names}, path, sizevars=SIZES
    )


if __name__ == "__main__":
    make(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("model.oinf"))
