"""Computations of operators of the catalogue, by the texts of their types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from openinfer.dtypes import BY_NAME
from openinfer.ir.types import TensorType
from openinfer.ops.applying import call_of
from openinfer.ops.computations import computation_of
from openinfer.plugins.environment import Environment

if TYPE_CHECKING:
    from openinfer.compute import Computation


def computation(op: str, *types: str, **settings: Any) -> Computation:
    """Return the stages of an operator of the catalogue on types such as ``f32[3, 128]``."""
    kinds: list[TensorType] = []
    for text in types:
        name, _, extents = text.removesuffix("]").partition("[")
        kinds.append(TensorType(BY_NAME[name], tuple(map(int, extents.split(",")))))
    schema = Environment.default().op(op)
    return computation_of(schema, call_of(schema, kinds, settings))
