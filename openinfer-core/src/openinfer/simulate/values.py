"""Values that come from the host and go back to it: conversion, checks, storage form."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.dtypes import DType, Kind
from openinfer.errors import DTypeError, ShapeError
from openinfer.packing import pack, unpack
from openinfer.scalars import check_fits, converted

if TYPE_CHECKING:
    import numpy.typing as npt

    from openinfer.ir.types import TensorType
    from openinfer.scalars import Scalar

    Array: TypeAlias = npt.NDArray[Any]

MISMATCH = "insert-mismatch"


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """A fetched value: element type, shape, and its storage form (packed types: their bytes)."""

    dtype: DType
    shape: tuple[int, ...]
    storage: Array

    @property
    def array(self) -> Array:
        """The elements as an array of `shape`; packed types as int8 or uint8."""
        return unpack(self.storage, self.dtype, self.shape) if self.dtype.is_packed else self.storage


def storage_of(value: Any, wanted: TensorType, name: str) -> Array:
    """Return a value of the host as an array in storage form, the host's own where it is one.

    Numbers, bools and lists of them are converted to the element type if they fit it; arrays (also anything with
    ``__array__`` or DLPack) must have it: packed and bitset types as int8 or uint8, one element an item.

    Raises:
        DTypeError: ``insert-mismatch``, the value has another element type or does not fit.
        ShapeError: ``insert-mismatch``, the value has another shape.
    """
    array = _array(value, wanted, name)
    if array.shape != wanted.shape:
        message = f"`{name}` is declared {wanted}, found a value of shape {list(array.shape)}"
        raise ShapeError(message, code=MISMATCH)
    if not wanted.dtype.is_packed:
        return array if array.flags.c_contiguous else np.array(array, order="C")
    _check_range(array, wanted.dtype, name)
    return pack(array, wanted.dtype)


def host_value(tensor: Tensor) -> Any:
    """Return a value as the host sees it: a Python scalar for rank 0, else an array."""
    return tensor.array.item() if not tensor.shape else tensor.array


def scalar_value(array: Array, dtype: DType) -> Scalar:
    """Return the one element of a value in storage form as a Python number or bool."""
    element: Any = unpack(array.reshape(-1), dtype, ()).item() if dtype.is_packed else array.item()
    return float(element) if dtype.is_float else bool(element) if dtype.kind is Kind.BOOL else int(element)


def _array(value: Any, wanted: TensorType, name: str) -> Array:
    dtype = wanted.dtype
    if type(value) is np.ndarray:
        array: Array = value
    elif isinstance(value, bool | int | float | list | tuple):
        return _converted(value, wanted, name)
    else:
        array = _from_protocol(value, name)
    expected = storage_dtype(dtype)
    if array.dtype != expected:
        message = f"`{name}` is declared {dtype}, found an array of {array.dtype} (expected {expected})"
        raise DTypeError(f"{message}: convert it with .astype", code=MISMATCH)
    return array


def _from_protocol(value: Any, name: str) -> Array:
    if hasattr(value, "__array__"):
        return np.asarray(value)
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    message = f"`{name}` takes numbers, lists of them or arrays, found {type(value).__name__}"
    raise DTypeError(message, code=MISMATCH)


def _converted(value: Any, wanted: TensorType, name: str) -> Array:
    dtype = wanted.dtype
    if type(value) is int and not dtype.is_packed and (dtype.minimum or 0) <= value <= (dtype.maximum or 0):
        return np.array(value, storage_dtype(dtype))
    if isinstance(value, bool | int | float):
        return np.array(_element(value, dtype, name)).astype(storage_dtype(dtype))
    try:
        loose = np.asarray(value, dtype=object)
    except ValueError as error:
        raise ShapeError(f"`{name}`: {error}", code=MISMATCH) from error
    if not loose.size and wanted.shape[: loose.ndim] == loose.shape:
        # No list shows how long its rows would be if it had any.
        return np.empty(wanted.shape, storage_dtype(dtype))
    items = loose.reshape(-1).tolist()
    if any(isinstance(item, list | tuple) for item in items):
        raise ShapeError(f"`{name}` is declared {wanted}, found a list whose rows differ in length", code=MISMATCH)
    elements = [_element(item, dtype, name) for item in items]
    own = storage_dtype(dtype)
    wide = np.dtype(np.float64) if dtype.is_float else own
    return np.array(elements, dtype=wide).astype(own).reshape(loose.shape)


def _element(item: Any, dtype: DType, name: str) -> Scalar:
    plain: Any = cast("Any", item).item() if isinstance(item, np.generic) else item
    if not isinstance(plain, bool | int | float):
        raise DTypeError(f"`{name}` takes {dtype} elements, found {type(plain).__name__}", code=MISMATCH)
    if isinstance(plain, int) and abs(plain) > sys.float_info.max:
        message = f"`{name}`: an integer of {plain.bit_length()} bits does not fit {dtype}"
        raise DTypeError(message, code=MISMATCH)
    if dtype.is_float and isinstance(plain, int) and not isinstance(plain, bool):
        plain = float(plain)
    problem = check_fits(dtype, plain)
    if problem is not None:
        raise DTypeError(f"`{name}`: {problem}", code=MISMATCH)
    return converted(dtype, plain)


def _check_range(array: Array, dtype: DType, name: str) -> None:
    low, high = dtype.minimum or 0, dtype.maximum or 0
    bad = (array < low) | (array > high)
    if dtype.name == "t1":
        bad |= array == 0
    if bad.any():
        value = array.reshape(-1)[int(bad.reshape(-1).argmax())]
        raise DTypeError(f"`{name}` is declared {dtype}: {value} is outside of it ({low}..{high})", code=MISMATCH)
