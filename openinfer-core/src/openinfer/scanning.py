"""Finds the modules of a package by listing its folder, so that a new module needs no entry in a list."""

from __future__ import annotations

import importlib
import pkgutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def modules_in(package: ModuleType) -> list[ModuleType]:
    """Import and return the modules of a package, in order of name."""
    names = sorted(found.name for found in pkgutil.iter_modules(package.__path__))
    return [importlib.import_module(f"{package.__name__}.{name}") for name in names]
