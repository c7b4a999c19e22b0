"""The model of the prefix tables example, tensors under numbered names: `python make_model.py [FILE]`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from openinfer_oinf import save_file

SIZES = {"B": 2, "D": 8, "E": 4, "L": 3, "H": 2}


def make(path: str | Path) -> None:
    """Write the model: W.0, W.1, … and attn.0.qkv.0, …, which a dict can hold and a dataclass cannot."""
    rng = np.random.default_rng(0)
    wide, narrow, layers, heads = SIZES["D"], SIZES["E"], SIZES["L"], SIZES["H"]
    tensors = {f"W.{layer}": rng.normal(size=(wide, wide)).astype(np.float32) for layer in range(layers)}
    for layer in range(layers):
        for head in range(heads):
            tensors[f"attn.{head}.qkv.{layer}"] = rng.normal(size=(wide, 3 * narrow)).astype(np.float32)
    save_file(tensors, path, sizevars=SIZES)


if __name__ == "__main__":
    make(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("model.oinf"))
