"""A small regression network: `python mlp_regression.py [FILE]`."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass

import numpy as np
from dataclass_to_oinf import SizeVar, TensorSpec, write_oinf
from verify_oinf import verify_oinf


@dataclass
class MlpModel:
    """Sizes: batch B, inputs D, hidden units H, outputs O. Plain fields are metadata."""

    B: SizeVar
    D: SizeVar
    H: SizeVar
    O: SizeVar  # noqa: E741
    activation: str
    learning_rate: float
    w1: TensorSpec
    b1: TensorSpec
    w2: TensorSpec
    b2: TensorSpec
    scale: TensorSpec


def build() -> MlpModel:
    rng = np.random.default_rng(1)
    batch, inputs, hidden, outputs = 4, 16, 32, 8
    return MlpModel(
        B=SizeVar(batch),
        D=SizeVar(inputs),
        H=SizeVar(hidden),
        O=SizeVar(outputs),
        activation="relu",
        learning_rate=0.01,
        w1=TensorSpec(rng.normal(size=(inputs, hidden)).astype(np.float32)),
        b1=TensorSpec(rng.normal(size=(hidden,)).astype(np.float32)),
        w2=TensorSpec(rng.normal(size=(hidden, outputs)).astype(np.float32)),
        b2=TensorSpec(rng.normal(size=(outputs,)).astype(np.float32)),
        # A number in a TensorSpec is a tensor without dimensions; a bare float would be metadata.
        scale=TensorSpec(np.array(0.1, dtype=np.float32)),
    )


def main(path: str) -> None:
    write_oinf(build(), path)
    verify_oinf(path)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1] if len(sys.argv) > 1 else f"{folder}/mlp_regression.oinf")
