"""Initial values of variables and entries of prefix tables, brought from the model to a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.errors import DTypeError, ExecutionError, ShapeError
from openinfer.ir.resolved import Filled, FromTensor
from openinfer.ir.types import TensorType
from openinfer.packing import pack

if TYPE_CHECKING:
    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.ir.resolved import FromMetadata, Initial, PrefixTable, ResolvedVar
    from openinfer.model import Model
    from openinfer.simulate.devices.backend import Buffer, DeviceBackend

    Array: TypeAlias = npt.NDArray[Any]


class InitialValues:
    """Makes buffers with initial values on one device."""

    def __init__(self, model: Model, backend: DeviceBackend) -> None:
        self._model = model
        self._backend = backend

    def on(self, backend: DeviceBackend) -> InitialValues:
        """Return the same initial values for another device."""
        return InitialValues(self._model, backend)

    def fixed(self, variable: ResolvedVar) -> Buffer:
        """Return a buffer with the value of a variable that never changes."""
        kind, initial = variable.type, variable.initial
        if initial is not None and not isinstance(initial, Filled):
            return self._backend.upload(kind, self._initial_array(initial, kind))
        buffer = self._backend.allocate(kind)
        if initial is not None:
            self._backend.bind_fill(buffer, initial.value)()
        return buffer

    def initialiser(self, initial: Initial, kind: TensorType, buffer: Buffer) -> BoundCall:
        """Return the call that gives a buffer its initial value."""
        if isinstance(initial, Filled):
            return self._backend.bind_fill(buffer, initial.value)
        pristine = self._backend.upload(kind, self._initial_array(initial, kind))
        return self._backend.bind_copy(pristine, buffer)

    def entry(self, table: PrefixTable, indices: tuple[int, ...]) -> Buffer:
        """Return a buffer with an entry of a prefix table.

        Raises:
            ExecutionError: an index is negative, or the model has no tensor of that name.
            DTypeError, ShapeError: the model's tensor has another type than the declaration.
        """
        access = f"{table.name}[{','.join(map(str, indices))}]"
        if any(index < 0 for index in indices):
            raise ExecutionError(f"`{access}` has a negative index", code="out-of-range")
        name = table.tensor_name(indices)
        info = self._model.linked(name, table.type.dtype)
        if info is None:
            message = f"`{access}` needs the model tensor `{name}`, which {self._model.name} does not have"
            raise ExecutionError(message, code="model-data")
        stored = TensorType(info.dtype, info.shape)
        if stored.dtype is not table.type.dtype:
            raise DTypeError(f"`{access}` is declared {table.type}, the model's `{name}` is {stored}")
        if stored.shape != table.type.shape:
            raise ShapeError(f"`{access}` is declared {table.type}, the model's `{name}` is {stored}")
        if info.has_data:
            return self._backend.upload(stored, self._model.load_raw(info.name))
        buffer = self._backend.allocate(stored)
        self._backend.bind_fill(buffer, table.initial.value)()
        return buffer

    def _initial_array(self, initial: FromTensor | FromMetadata, kind: TensorType) -> Array:
        if isinstance(initial, FromTensor):
            return self._model.load_raw(initial.name)
        array = self._model.load_metadata_tensor(initial.name)
        if array is None:
            raise ExecutionError(f"the model has no metadata `{initial.name}`", code="model-data")
        values = np.ascontiguousarray(array).astype(storage_dtype(kind.dtype))
        return pack(values, kind.dtype) if kind.dtype.is_packed else values
