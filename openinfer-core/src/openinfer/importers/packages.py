"""Packages that read other formats, which are installed with an extra of openinfer-core."""

from __future__ import annotations

import importlib
from typing import Any

from openinfer.errors import MissingDependencyError
from openinfer_oinf.installing import install_command


def module_of(package: str, name: str, purpose: str) -> Any:
    """Import and return a module of a package, whose extra has its name.

    Args:
        package: the package.
        name: the module.
        purpose: what needs it, for people, such as "reading ONNX models".

    Raises:
        MissingDependencyError: the package is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        command = install_command(f"openinfer-core[{package}]")
        message = f"{purpose} needs the package {package} ({error}): install it with `{command}`"
        raise MissingDependencyError(message) from error
