"""Stored bytes to NumPy arrays: views where NumPy has the type, decoded copies where it has not."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .floats import f32_from_bf16, f32_from_f8
from .packing import unpack
from .valuetypes import ValueType

Array = NDArray[Any]

_NATIVE = {
    "i8": "<i1",
    "i16": "<i2",
    "i32": "<i4",
    "i64": "<i8",
    "u8": "<u1",
    "u16": "<u2",
    "u32": "<u4",
    "u64": "<u8",
    "f16": "<f2",
    "f32": "<f4",
    "f64": "<f8",
    "bool": "?",
    "bitset": "<u1",
}
_ML_DTYPES = {"bf16": ("bfloat16", "<u2"), "f8": ("float8_e5m2", "<u1")}


@cache
def numpy_dtype(value_type: ValueType) -> np.dtype[Any]:
    """The NumPy dtype of decoded elements.

    bf16 and f8 are ml_dtypes types when that package is installed, else their bits as u16 and u8; packed
    types are int8 or uint8.
    """
    if value_type.is_packed:
        return np.dtype(np.uint8 if value_type.kind == "uint" else np.int8)
    if value_type.name not in _ML_DTYPES:
        return np.dtype(_NATIVE[value_type.name])
    name, bits = _ML_DTYPES[value_type.name]
    try:
        module = importlib.import_module("ml_dtypes")
    except ModuleNotFoundError:
        return np.dtype(bits)
    return np.dtype(getattr(module, name))


def as_bytes(view: memoryview) -> NDArray[np.uint8]:
    """A uint8 array over a buffer, without copying."""
    return np.frombuffer(view, np.uint8) if len(view) else np.empty(0, np.uint8)


def decode(view: memoryview, value_type: ValueType, shape: tuple[int, ...], count: int) -> Array:
    """A read-only array of `shape` over stored bytes; only packed types are copied."""
    if value_type.is_packed:
        array = unpack(as_bytes(view), value_type, 0, count)
    elif count == 0:
        array = np.empty(0, numpy_dtype(value_type))
    else:
        array = np.frombuffer(view, numpy_dtype(value_type))
    if value_type.kind == "bool" and (array.view(np.uint8) > 1).any():
        # Only check="compat" comes here; NumPy's behaviour on such bytes is undefined.
        array = array.view(np.uint8) != 0
    array = array.reshape(shape)
    array.flags.writeable = False
    return array


def plain_numbers(stored: NDArray[np.uint8], value_type: ValueType) -> Array:
    """Whole bytes of elements as a flat array of a type NumPy calculates with (bf16 and f8 as float32)."""
    if value_type.name == "bf16":
        return f32_from_bf16(stored.view("<u2"))
    if value_type.name == "f8":
        return f32_from_f8(stored)
    if value_type.is_packed:
        return unpack(stored, value_type, 0, stored.size * 8 // value_type.bits)
    if value_type.kind == "bool" and (stored > 1).any():
        # Only check="compat" comes here; NumPy's behaviour on such bytes is undefined.
        return stored != 0
    return stored.view(_NATIVE[value_type.name])


def widened(numbers: Array) -> NDArray[np.float64]:
    """Numbers as float64, exactly for all but the largest 64-bit integers; NaNs of every kind stay NaNs."""
    # The processor flags the conversion of a signalling NaN as invalid, of which NumPy would warn.
    with np.errstate(invalid="ignore"):
        return numbers.astype(np.float64)
