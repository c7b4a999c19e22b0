"""The package ``onnx``, which is installed with the extra ``openinfer-core[onnx]``."""

from __future__ import annotations

from typing import Any

from openinfer.importers.packages import module_of


def onnx_module(name: str = "onnx") -> Any:
    """Import and return the package ``onnx`` or a module of it.

    Raises:
        MissingDependencyError: it is not installed.
    """
    return module_of("onnx", name, "reading ONNX models")
