"""The form of an oracle, and how what is known of an operator is found."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from openinfer.testing import oracles

if TYPE_CHECKING:
    import numpy.typing as npt

    from openinfer.ops.calls import OpCall

Exact: TypeAlias = "npt.NDArray[Any]"
"""Exact values: floats as float64, integers (packed ones, bitsets and ternaries too) as Python ints in an array of
objects, bool as bool."""

Oracle: TypeAlias = Callable[[Sequence["Exact | None"], "OpCall"], tuple["Exact", ...]]
"""Computes an operator: exact inputs (None where left out; variadic ones follow) and the call, which has every setting
by its canonical name and the types of inputs and outputs. Floats come back before the rounding to the output's type,
integers before wrapping."""


def known_oracles() -> Mapping[str, Oracle]:
    """Return the oracles of the built-in operators by operator name."""
    return known("ORACLES")


@cache
def known(table: str) -> Mapping[str, Any]:
    """Return what all modules of oracles hold in a table of this name, by operator name."""
    found: dict[str, Any] = {}
    for module in pkgutil.iter_modules(oracles.__path__, f"{oracles.__name__}."):
        found |= getattr(importlib.import_module(module.name), table, {})
    return found
