"""An operator that a plugin offers in addition to those of the installed packages."""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

from openinfer.plugins.hookspecs import hookimpl
from openinfer.plugins.loader import load_environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ir.types import TensorType
    from openinfer.ops import OpSchema
    from openinfer.plugins.environment import Environment


def same_type(
    inputs: Sequence[TensorType | None], settings: Mapping[str, Any], declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    """The output has the type of the one input."""
    (x,) = inputs
    assert x is not None
    return (x,)


def environment_offering(schema: OpSchema) -> Environment:
    """Return what is installed, and an operator of the plugin ``third_party``."""
    plugin = ModuleType("third_party")

    @hookimpl
    def openinfer_ops() -> tuple[OpSchema, ...]:
        return (schema,)

    plugin.__dict__.update(OPENINFER_API=1, openinfer_ops=openinfer_ops)
    return load_environment(extra=[("third_party", plugin)])
