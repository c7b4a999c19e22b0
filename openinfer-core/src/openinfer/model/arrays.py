"""Models in memory, made of arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.array_types import dtype_of_array
from openinfer.dtypes import BOOL, F32, I64
from openinfer.errors import ModelError
from openinfer.model.sizes import exact_size
from openinfer.model.store import MetadataValue, VarInfo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.model.store import Array


class ArrayStore:
    """A model made of arrays."""

    def __init__(self, arrays: Mapping[str, Any], sizevars: Mapping[str, int], metadata: Mapping[str, Any]) -> None:
        self._arrays = {name: read_only(_array(value)) for name, value in arrays.items()}
        self.sizevars: Mapping[str, int] = {name: _size(name, value) for name, value in sizevars.items()}
        self.tensors: Mapping[str, VarInfo] = {name: _info(name, array) for name, array in self._arrays.items()}
        self.metadata: Mapping[str, MetadataValue] = {name: _metadata(name, value) for name, value in metadata.items()}

    def values(self, name: str) -> Array:
        return self._arrays[name]

    def stored(self, name: str) -> Array:
        return self._arrays[name].reshape(-1).view(np.uint8)

    def close(self) -> None:
        self._arrays.clear()


def read_only(array: Array) -> Array:
    """Return a copy in the machine's byte order that nobody can write to."""
    copy = array.astype(array.dtype.newbyteorder("="), order="C", subok=False, copy=True)
    copy.flags.writeable = False
    return copy


def _array(value: Any) -> Array:
    """Return an array of what is array-like; lists of whole numbers stay whole where NumPy makes floats of them."""
    array = np.asarray(value)
    if not isinstance(value, list | tuple) or array.dtype != np.float64:
        return array
    elements = np.asarray(value, object)
    is_whole = all(isinstance(each, int) and 0 <= each < 1 << 64 for each in elements.reshape(-1))
    return elements.astype(np.uint64) if is_whole and elements.size else array


def _info(name: str, array: Array) -> VarInfo:
    dtype = dtype_of_array(array)
    if dtype is None:
        raise ModelError(f"tensor {name!r} has element type {array.dtype}, which OpenInfer does not have")
    return VarInfo(name=name, dtype=dtype, shape=array.shape, has_data=True, offset=None, nbytes=array.nbytes)


def _size(name: str, value: object) -> int:
    size = exact_size(value)
    if size is None or size < 0:
        raise ModelError(f"size {name!r} is {value!r}, expected a non-negative integer", code="bad-dim")
    return size


def _metadata(name: str, value: Any) -> MetadataValue:
    if isinstance(value, str):
        return MetadataValue("str", value)
    if isinstance(value, bool):
        return MetadataValue(BOOL.name, value)
    if isinstance(value, int):
        if not (I64.minimum or 0) <= value <= (I64.maximum or 0):
            raise ModelError(f"metadata {name!r} is an integer that does not fit i64")
        return MetadataValue(I64.name, value)
    if isinstance(value, float):
        return MetadataValue(F32.name, value)
    array = _array(value)
    dtype = dtype_of_array(array)
    if dtype is None:
        raise ModelError(f"metadata {name!r} has element type {array.dtype}, which OpenInfer does not have")
    return MetadataValue(dtype.name, array)
