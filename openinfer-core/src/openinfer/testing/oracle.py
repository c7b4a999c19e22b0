"""The form of an oracle, and how what is known of an operator is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from openinfer.plugins.types import load_object
from openinfer.scanning import modules_in
from openinfer.testing import oracles

if TYPE_CHECKING:
    import numpy.typing as npt

    from openinfer.ops.calls import OpCall
    from openinfer.ops.schema import OpSchema

Exact: TypeAlias = "npt.NDArray[Any]"
"""Exact values: floats as float64, integers (packed ones, bitsets and ternaries too) as Python ints in an array of
objects, bool as bool."""

Oracle: TypeAlias = Callable[[Sequence["Exact | None"], "OpCall"], tuple["Exact", ...]]
"""Computes an operator: exact inputs (None where left out; variadic ones follow) and the call, which has every setting
by its canonical name and the types of inputs and outputs. Floats come back before the rounding to the output's type,
integers before wrapping."""


def oracle_of(schema: OpSchema) -> Oracle | None:
    """Return the oracle of an operator: the kit's own for those of core, otherwise that of its schema, or None.

    Raises:
        PluginError: the oracle that the schema names cannot be imported.
    """
    if schema.name in known_oracles() or schema.oracle is None:
        return known_oracles().get(schema.name)
    return load_object(schema.oracle)


def known_oracles() -> Mapping[str, Oracle]:
    """Return the oracles of the built-in operators by operator name."""
    return known("ORACLES")


@cache
def known(table: str) -> Mapping[str, Any]:
    """Return what all modules of oracles hold in a table of this name, by operator name."""
    found: dict[str, Any] = {}
    for module in modules_in(oracles):
        found |= getattr(module, table, {})
    return found
