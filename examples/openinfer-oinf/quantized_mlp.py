"""Weights quantised in three ways, with what each loses: `python quantized_mlp.py [FILE]`."""

from __future__ import annotations

import sys
import tempfile

import numpy as np

from openinfer_oinf import TensorSpec, open_oinf, quantization_error, quantize_array, save_file

INPUTS, OUTPUTS, GROUP = 64, 16, 32


def build() -> dict[str, object]:
    rng = np.random.default_rng(1)
    # Channels of very different sizes: one scale for all of them loses the small ones.
    weights = rng.normal(size=(OUTPUTS, INPUTS)) * np.logspace(-2, 1, OUTPUTS)[:, None]
    ways = {
        "per_tensor": (weights, quantize_array(weights, "i8")),
        "per_channel": (weights, quantize_array(weights, "i8", axis=0)),
        # Groups are rows of a reshaped tensor; the shape they stand for is metadata.
        "groups": (weights.reshape(-1, GROUP), quantize_array(weights.reshape(-1, GROUP), "i4", axis=0)),
        "asymmetric": (np.abs(weights), quantize_array(np.abs(weights), "u8", scheme="asymmetric", axis=0)),
    }
    tensors: dict[str, object] = {}
    for name, (real, quantized) in ways.items():
        error = quantization_error(real, quantized)
        print(
            f"{name:<12} {quantized.dtype}  max {error.largest:.5f}  mean {error.mean:.5f}  snr {error.snr_db:.1f} dB"
        )
        tensors[name] = TensorSpec(quantized.values, dtype=quantized.dtype, quant=quantized.quant)
    return tensors


def main(path: str) -> None:
    save_file(build(), path, metadata={"groups.shape": [OUTPUTS, INPUTS]})
    with open_oinf(path) as file:
        shape = file.metadata["groups.shape"]
        real = file.tensor("groups").dequantize().reshape(shape)
        print(f"groups: {file.tensor('groups').nbytes} bytes stand for real values of shape {list(real.shape)}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1] if len(sys.argv) > 1 else f"{folder}/quantized_mlp.oinf")
