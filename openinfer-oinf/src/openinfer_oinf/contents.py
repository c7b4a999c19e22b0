"""What an author puts into a container: markers for size variables and tensors, and all of it together."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from .arrays import Array
from .encoding import as_array, default_type
from .errors import Finding, OinfError
from .quant import QuantParams
from .sizes import size_text
from .valuetypes import ValueType, element_type


@dataclass(frozen=True)
class SizeVar:
    """Marks a size variable: a whole number, 0 to 2**64 - 1. Raises `OinfError` (E_VALUE) for anything else."""

    value: int

    def __post_init__(self) -> None:
        try:
            value = operator.index(self.value)
        except TypeError:
            value = -1
        if isinstance(self.value, bool | np.bool_) or not 0 <= value < 1 << 64:
            raise OinfError(Finding(code="E_VALUE", message=f"{self.value!r} is not a size: 0 to 2**64 - 1"))
        object.__setattr__(self, "value", value)


def whole_dims(shape: Iterable[int]) -> tuple[int, ...]:
    """A shape as Python ints. Raises `OinfError` (E_SHAPE) for anything but whole numbers in a sequence."""
    try:
        return tuple(operator.index(dim) for dim in shape)
    except TypeError as error:
        message = f"a shape is a sequence of whole numbers, not {shape!r:.80}"
        raise OinfError(Finding(code="E_SHAPE", message=message)) from error


@dataclass(frozen=True, eq=False)
class TensorSpec:
    """Marks a tensor: anything array-like, stored as `dtype` (by name, alias or tag; the data's own if None).

    `name` replaces the field's name, which cannot hold dots; `quant` says how stored integers stand for real values.
    """

    data: object
    dtype: str | int | None = None
    name: str | None = None
    quant: QuantParams | None = None

    def resolved(self) -> tuple[Array, ValueType]:
        """The data as an array and the type to store. Raises `OinfError` (E_DTYPE, E_VALUE)."""
        kind = None if self.dtype is None else element_type(self.dtype)
        array = as_array(self.data, kind)
        return array, kind or default_type(array)

    def __repr__(self) -> str:
        name = f" {self.name}" if self.name else ""
        try:
            array, kind = self.resolved()
        except OinfError as error:
            return f"<TensorSpec{name}: {error.first.message}>"
        quant = ", quantised" if self.quant else ""
        return f"<TensorSpec{name}: {kind.name}{list(array.shape)}, {size_text(kind.stored_nbytes(array.size))}{quant}>"


@dataclass(frozen=True)
class UninitializedTensor:
    """Declares a tensor of a type and shape without data. Raises `OinfError` (E_DTYPE, E_SHAPE)."""

    dtype: str | int
    shape: tuple[int, ...]
    name: str | None = None
    quant: QuantParams | None = None

    def __post_init__(self) -> None:
        element_type(self.dtype)
        object.__setattr__(self, "shape", whole_dims(self.shape))


@dataclass(frozen=True, eq=False)
class Contents:
    """Everything that goes into one file, by name."""

    sizevars: Mapping[str, int] = field(default_factory=dict[str, int])
    metadata: Mapping[str, object] = field(default_factory=dict[str, object])
    tensors: Mapping[str, TensorSpec | UninitializedTensor] = field(
        default_factory=dict[str, TensorSpec | UninitializedTensor]
    )
