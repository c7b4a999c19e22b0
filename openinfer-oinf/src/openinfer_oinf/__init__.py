"""The .oinf model container: read, write, verify and inspect.

Names are loaded on first use, so that importing the package does not import NumPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .contents import Contents, SizeVar, TensorSpec, UninitializedTensor
    from .convert.conversion import ConversionOptions, convert_to_oinf
    from .convert.model import Change, ReadOptions
    from .errors import AbsentNameError, Finding, OinfError, UninitializedError
    from .fileplan import FilePlan
    from .limits import Limits
    from .metadata import Bitset, ScalarValue, TypedValue
    from .quant import QuantParams, QuantScale, QuantZeroPoint
    from .quantization import (
        QuantizationError,
        QuantizedArray,
        dequantize,
        quantization_error,
        quantize,
        quantize_array,
    )
    from .quantizefile import QuantizeOptions, quantize_oinf
    from .reader import OinfFile, load_file, open_oinf
    from .rewrite import rewrite_oinf
    from .salvage import salvage_oinf
    from .save import dataclass_to_oinf, plan, save_file, write_oinf
    from .shards import ShardedOinf, save_shards
    from .tensor import StoredTensor
    from .verify import Report, verify_oinf
    from .writer import OinfWriter

__version__ = "0.2.0"

_MODULES = {
    "contents": ("Contents", "SizeVar", "TensorSpec", "UninitializedTensor"),
    "convert.conversion": ("ConversionOptions", "convert_to_oinf"),
    "convert.model": ("Change", "ReadOptions"),
    "errors": ("AbsentNameError", "Finding", "OinfError", "UninitializedError"),
    "limits": ("Limits",),
    "metadata": ("Bitset", "ScalarValue", "TypedValue"),
    "fileplan": ("FilePlan",),
    "quant": ("QuantParams", "QuantScale", "QuantZeroPoint"),
    "quantization": (
        *("QuantizationError", "QuantizedArray"),
        *("dequantize", "quantization_error", "quantize", "quantize_array"),
    ),
    "quantizefile": ("QuantizeOptions", "quantize_oinf"),
    "rewrite": ("rewrite_oinf",),
    "reader": ("OinfFile", "load_file", "open_oinf"),
    "salvage": ("salvage_oinf",),
    "shards": ("ShardedOinf", "save_shards"),
    "save": ("dataclass_to_oinf", "plan", "save_file", "write_oinf"),
    "tensor": ("StoredTensor",),
    "verify": ("Report", "verify_oinf"),
    "writer": ("OinfWriter",),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "AbsentNameError",
    "Bitset",
    "Change",
    "Contents",
    "ConversionOptions",
    "FilePlan",
    "Finding",
    "Limits",
    "OinfError",
    "OinfFile",
    "OinfWriter",
    "QuantParams",
    "QuantScale",
    "QuantZeroPoint",
    "QuantizationError",
    "QuantizeOptions",
    "QuantizedArray",
    "ReadOptions",
    "Report",
    "ScalarValue",
    "ShardedOinf",
    "SizeVar",
    "StoredTensor",
    "TensorSpec",
    "TypedValue",
    "UninitializedError",
    "UninitializedTensor",
    "convert_to_oinf",
    "dataclass_to_oinf",
    "dequantize",
    "load_file",
    "open_oinf",
    "plan",
    "quantization_error",
    "quantize",
    "quantize_array",
    "quantize_oinf",
    "rewrite_oinf",
    "salvage_oinf",
    "save_file",
    "save_shards",
    "verify_oinf",
    "write_oinf",
]


def __getattr__(name: str) -> object:
    module = _HOME.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
