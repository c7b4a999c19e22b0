"""The package ``tflite``, which is installed with the extra ``openinfer-core[tflite]``."""

from __future__ import annotations

from typing import Any

from openinfer.importers.packages import module_of


def tflite_module(name: str = "tflite") -> Any:
    """Import and return the package ``tflite`` or a module of it.

    Raises:
        MissingDependencyError: it is not installed.
    """
    return module_of("tflite", name, "reading TFLite models")
