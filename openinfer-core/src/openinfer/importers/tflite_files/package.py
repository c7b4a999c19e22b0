"""The package ``tflite``, which is installed with the extra ``openinfer-core[tflite]``."""

from __future__ import annotations

import importlib
from typing import Any

from openinfer.errors import MissingDependencyError


def tflite_module(name: str = "tflite") -> Any:
    """Import and return the package ``tflite`` or a module of it.

    Raises:
        MissingDependencyError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        message = f"reading TFLite models needs the package tflite ({error}): install it with"
        raise MissingDependencyError(f"{message} `pip install openinfer-core[tflite]`") from error
