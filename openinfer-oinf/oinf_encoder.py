"""Earlier module name: what `dataclass_to_oinf` has."""

from __future__ import annotations

from dataclass_to_oinf import (
    Bitset,
    OinfError,
    QuantParams,
    QuantScale,
    QuantZeroPoint,
    ScalarValue,
    SizeVar,
    TensorSpec,
    UninitializedTensor,
    dataclass_to_oinf,
    write_oinf,
)

__all__ = [
    "Bitset",
    "OinfError",
    "QuantParams",
    "QuantScale",
    "QuantZeroPoint",
    "ScalarValue",
    "SizeVar",
    "TensorSpec",
    "UninitializedTensor",
    "dataclass_to_oinf",
    "write_oinf",
]
