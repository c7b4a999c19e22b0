"""The .oinf model container: read, write, verify and inspect.

Names are loaded on first use, so that importing the package does not import NumPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .contents import Contents, SizeVar, TensorSpec, UninitializedTensor
    from .errors import Finding, OinfError, UninitializedError
    from .limits import Limits
    from .metadata import Bitset, ScalarValue, TypedValue
    from .plan import FilePlan
    from .quant import QuantParams, QuantScale, QuantZeroPoint
    from .quantization import QuantizationError, QuantizedArray, quantization_error, quantize, quantize_array
    from .reader import OinfFile, load_file, open_oinf
    from .rewrite import QuantizeOptions, quantize_oinf, rewrite_oinf
    from .save import dataclass_to_oinf, save_file, write_oinf
    from .tensor import StoredTensor
    from .verify import Report, verify_oinf
    from .writer import OinfWriter

__version__ = "0.2.0"

_MODULES = {
    "contents": ("Contents", "SizeVar", "TensorSpec", "UninitializedTensor"),
    "errors": ("Finding", "OinfError", "UninitializedError"),
    "limits": ("Limits",),
    "metadata": ("Bitset", "ScalarValue", "TypedValue"),
    "plan": ("FilePlan",),
    "quant": ("QuantParams", "QuantScale", "QuantZeroPoint"),
    "quantization": ("QuantizationError", "QuantizedArray", "quantization_error", "quantize", "quantize_array"),
    "rewrite": ("QuantizeOptions", "quantize_oinf", "rewrite_oinf"),
    "reader": ("OinfFile", "load_file", "open_oinf"),
    "save": ("dataclass_to_oinf", "save_file", "write_oinf"),
    "tensor": ("StoredTensor",),
    "verify": ("Report", "verify_oinf"),
    "writer": ("OinfWriter",),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Bitset",
    "Contents",
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
    "Report",
    "ScalarValue",
    "SizeVar",
    "StoredTensor",
    "TensorSpec",
    "TypedValue",
    "UninitializedError",
    "UninitializedTensor",
    "dataclass_to_oinf",
    "load_file",
    "open_oinf",
    "quantization_error",
    "quantize",
    "quantize_array",
    "quantize_oinf",
    "rewrite_oinf",
    "save_file",
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
