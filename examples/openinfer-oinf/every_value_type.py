"""A model of every element type and every kind of metadata: `python every_value_type.py [FILE]`."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, field

import numpy as np
from dataclass_to_oinf import Bitset, ScalarValue, SizeVar, TensorSpec, UninitializedTensor, write_oinf
from verify_oinf import verify_oinf

RANGES = {
    "i1": (-1, 0),
    "i2": (-2, 1),
    "i4": (-8, 7),
    "u1": (0, 1),
    "u2": (0, 3),
    "u4": (0, 15),
    "t1": (-1, 1),
    "t2": (-1, 1),
    **{f"i{bits}": (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) for bits in (8, 16, 32, 64)},
    **{f"u{bits}": (0, (1 << bits) - 1) for bits in (8, 16, 32, 64)},
}
FLOATS = ("f8", "bf16", "f16", "f32", "f64")


@dataclass
class EveryType:
    """Dicts called `metadata` and `tensors` hold entries whose names are not Python identifiers."""

    N: SizeVar = field(default_factory=lambda: SizeVar(9))
    name: str = "every-type"
    is_sample: bool = True
    count: int = 300
    ratio: float = 0.1
    table: list[int] = field(default_factory=lambda: [1, 2, 300])
    mask: Bitset = field(default_factory=lambda: Bitset([1, 0, 0, 1, 0, 1]))
    small: ScalarValue = field(default_factory=lambda: ScalarValue(-3, "i4"))
    metadata: dict[str, object] = field(default_factory=lambda: {"note.utf8": "Free text: any characters — at all."})
    tensors: dict[str, object] = field(default_factory=dict)


def build() -> EveryType:
    model = EveryType()
    for name, (low, high) in RANGES.items():
        unsigned = np.uint64 if low == 0 else np.int64
        model.tensors[f"whole.{name}"] = TensorSpec(np.array([low, high, high] * 3, unsigned), dtype=name)
    for name in FLOATS:
        values = np.array([0.0, -0.0, 1.5, -2.25, np.inf, -np.inf, np.nan, 3.0, 1e-3])
        model.tensors[f"float.{name}"] = TensorSpec(values, dtype=name)
    model.tensors["flags"] = np.array([[True, False, True]])
    model.tensors["cache"] = UninitializedTensor("f16", (2, 9))
    return model


def main(path: str) -> None:
    write_oinf(build(), path)
    verify_oinf(path)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(sys.argv[1] if len(sys.argv) > 1 else f"{folder}/every_value_type.oinf")
