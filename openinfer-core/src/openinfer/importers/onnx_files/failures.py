"""Exceptions by which the libraries that read and run models report that a model is damaged or unsupported, and ours.

Those of C++ code come through pybind11: classes of the library, which share no base but `Exception`, and the built-in
ones for the standard exceptions of C++.
"""

from __future__ import annotations

import importlib

from openinfer.errors import ModelImportError
from openinfer.importers.onnx_files.package import onnx_module

NUMERIC = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What Python code over NumPy raises for inputs that it was not written for, such as ONNX's reference evaluator."""


def broken(message: str) -> ModelImportError:
    """Return the error for a damaged file."""
    return ModelImportError(message, code="import-file")


def of_onnx() -> tuple[type[Exception], ...]:
    """Return what the package ``onnx`` raises for a model: its C++ code, or protobuf."""
    return (
        onnx_module("google.protobuf.message").DecodeError,
        onnx_module("onnx.checker").ValidationError,
        onnx_module("onnx.defs").SchemaError,
        onnx_module("onnx.shape_inference").InferenceError,
        onnx_module("onnx.version_converter").ConvertError,
        LookupError,
        RuntimeError,
        TypeError,
        ValueError,
    )


def of_onnxruntime() -> tuple[type[Exception], ...]:
    """Return what the package ``onnxruntime`` raises for a model or its inputs; it has a class for each status."""
    state = vars(importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state"))
    statuses = [found for found in state.values() if isinstance(found, type) and issubclass(found, Exception)]
    return (*statuses, *NUMERIC)
