"""The package ``onnx``, which is installed with the extra ``openinfer-core[onnx]``."""

from __future__ import annotations

import importlib
from typing import Any

from openinfer.errors import MissingDependencyError


def onnx_module(name: str = "onnx") -> Any:
    """Import and return the package ``onnx`` or a module of it.

    Raises:
        MissingDependencyError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        message = (
            f"reading ONNX models needs the package onnx ({error}): install it with `pip install openinfer-core[onnx]`"
        )
        raise MissingDependencyError(message) from error
