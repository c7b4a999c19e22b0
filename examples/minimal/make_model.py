"""The model of the minimal example, a size and a vector: `python make_model.py [FILE]`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from openinfer_oinf import SizeVar, TensorSpec, write_oinf


@dataclass
class Minimal:
    """Size B, and a vector of that length."""

    B: SizeVar
    a: TensorSpec


def make(path: str | Path) -> None:
    """Write the model."""
    values = np.random.default_rng(0).uniform(-1, 1, 1024).astype(np.float32)
    write_oinf(Minimal(B=SizeVar(1024), a=TensorSpec(values)), path)


if __name__ == "__main__":
    make(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).with_name("model.oinf"))
