"""Operators applied to types, as data: calls, and composite operators as calls of others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.dtypes import F32, DType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.ir.resolved import SettingValue
    from openinfer.ir.types import TensorType


@dataclass(frozen=True, slots=True, kw_only=True)
class OpCall:
    """An operator with the types of its inputs and outputs and every setting: what a kernel is chosen and bound for."""

    op: str
    inputs: tuple[TensorType | None, ...]
    outputs: tuple[TensorType, ...]
    settings: Mapping[str, SettingValue]


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a decomposition; numbers index `Decomposition.values`."""

    call: OpCall
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Decomposition:
    """A composite operator as calls of others. The first values are the inputs that were given, in order."""

    values: tuple[TensorType, ...]
    inputs: tuple[int | None, ...]
    outputs: tuple[int, ...]
    steps: tuple[Step, ...]


def compute_type(dtype: DType) -> DType:
    """Return the type in which elements of ``dtype`` are computed: f32 for the low floats, else itself."""
    return F32 if dtype.is_low_float else dtype
