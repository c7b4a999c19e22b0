"""Data that comes with a program: model tensors, metadata and fills, as bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.ir.resolved import Filled, FromMetadata, FromTensor
from openinfer.packing import repeated
from openinfer.plan.findings import about
from openinfer.plan.values import PackedWeight
from openinfer.scalars import repeated_code

if TYPE_CHECKING:
    from openinfer.ir.resolved import Initial
    from openinfer.ir.types import TensorType
    from openinfer.model import Model
    from openinfer.model.store import Array
    from openinfer.scalars import Scalar


class WeightStore:
    """Collects the weights of a plan; the same data is kept once."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._numbers: dict[tuple[object, ...], int] = {}
        self.weights: list[PackedWeight] = []

    def number_of(self, name: str, type: TensorType, initial: Initial) -> int:
        """Return the number of the weight that holds an initial value; ``name`` is the variable's.

        Raises:
            SynthesisError: there is no memory for it (``too-large``), or as `stored_array` says.
        """
        key = (repr(initial), type)
        if key not in self._numbers:
            source = name if isinstance(initial, Filled) else initial.name
            try:
                data = bytes_of(stored_array(self._model, type, initial))
            except MemoryError as error:
                message = f"the data of `{name}`, {type}, is more than this machine holds: {error}"
                raise about("too-large", message) from error
            self._numbers[key] = len(self.weights)
            self.weights.append(PackedWeight(number=len(self.weights), source=source, type=type, data=data))
        return self._numbers[key]

    def add(self, name: str, type: TensorType, data: memoryview, ops: tuple[str, ...]) -> int:
        """Return the number of a weight that holds the result of operators; ``name`` is the variable's."""
        number = len(self.weights)
        self.weights.append(PackedWeight(number=number, source=name, type=type, data=data, ops=ops))
        return number


def stored_array(model: Model, type: TensorType, initial: Initial) -> Array:
    """Return an initial value as an array in storage form.

    Raises:
        SynthesisError: metadata cannot be had as an array, or is of a packed type.
    """
    if isinstance(initial, FromTensor):
        return model.load_raw(initial.name)
    if isinstance(initial, FromMetadata):
        stored = model.load_metadata_tensor(initial.name)
        if stored is None:
            raise about("unbound", f"{model.name} has no metadata {initial.name!r}")
        if type.dtype.is_packed:
            message = f"metadata {initial.name!r} cannot be stored as {type}: its elements share bytes"
            raise about("dtype-unsupported", message)
        return np.broadcast_to(stored.astype(storage_dtype(type.dtype)), type.shape)
    if type.dtype.is_packed:
        return repeated(repeated_code(type.dtype, initial.value), type.dtype, type.count)
    return np.full(type.shape, initial.value, dtype=storage_dtype(type.dtype))


def scalar_of(model: Model, type: TensorType, initial: Initial) -> Scalar:
    """Return the value of a one-element variable."""
    if isinstance(initial, Filled):
        return initial.value
    array = model.load_tensor(initial.name) if isinstance(initial, FromTensor) else stored_array(model, type, initial)
    value: Scalar = array.reshape(-1)[0].item()
    return value


def bytes_of(array: Array) -> memoryview:
    """Return the elements of an array in storage form as little-endian bytes (read-only)."""
    little = np.ascontiguousarray(array)
    if little.dtype.byteorder == ">":
        little = little.astype(little.dtype.newbyteorder("<"))
    return little.reshape(-1).view(np.uint8).data.toreadonly()


def is_finite(weight: PackedWeight) -> bool:
    """Return whether a weight has no infinity and no NaN, as far as NumPy has its type."""
    dtype = weight.type.dtype
    if dtype.is_low_float:
        return False
    if dtype.is_packed:
        return True
    return bool(np.isfinite(np.frombuffer(weight.data, storage_dtype(dtype).newbyteorder("<"))).all())
