"""Operators applied to types, as data: calls, and composite operators as calls of others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from openinfer.dims import is_size, size_of, substituted
from openinfer.dtypes import F32, DType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.affine import Index, Var
    from openinfer.ir.resolved import SettingValue
    from openinfer.ir.types import TensorType


@dataclass(frozen=True, slots=True, kw_only=True)
class OpCall:
    """An operator with the types of its inputs and outputs and every setting: what a kernel is chosen and bound for."""

    op: str
    inputs: tuple[TensorType | None, ...]
    outputs: tuple[TensorType, ...]
    settings: Mapping[str, SettingValue]

    @property
    def has_sizes(self) -> bool:
        """Whether extents or settings are sizes that are known at run time only."""
        extents = (extent for type_ in (*self.inputs, *self.outputs) if type_ is not None for extent in type_.shape)
        return any(is_size(extent) for extent in extents) or any(map(_has_size, self.settings.values()))

    def substituted(self, values: Mapping[Var, Index]) -> OpCall:
        """Return the call with sizes replaced."""

        def replaced(value: Any) -> Any:
            if is_size(value):
                return size_of(substituted(value.index, values))
            return tuple(map(replaced, cast("tuple[Any, ...]", value))) if isinstance(value, tuple) else value

        types = [type_ and replace(type_, shape=replaced(type_.shape)) for type_ in (*self.inputs, *self.outputs)]
        count = len(self.inputs)
        return replace(
            self,
            inputs=tuple(types[:count]),
            outputs=tuple(type_ for type_ in types[count:] if type_ is not None),
            settings={name: replaced(value) for name, value in self.settings.items()},
        )


def _has_size(value: SettingValue) -> bool:
    return is_size(value) or (isinstance(value, tuple) and any(map(_has_size, value)))


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
