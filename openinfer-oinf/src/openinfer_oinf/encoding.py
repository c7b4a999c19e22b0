"""NumPy arrays to stored bytes: type rules, range checks, rounding, and encoding block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from .arrays import Array
from .errors import Finding, OinfError
from .floats import bf16_from_f32, f8_from_f32
from .packing import pack
from .valuetypes import ValueType, value_type

# Elements; multiples of 8, so that packed blocks end on whole bytes.
_BLOCK = 1 << 20
_CACHED_NBYTES = 1 << 18  # of source values: with what is made of them they fit the processor's second cache

_BY_NUMPY_NAME = {
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "bool": "bool",
    "bfloat16": "bf16",
    "float8_e5m2": "f8",
} | {f"{sign}int{bits}": f"{sign or 'i'}{bits}" for sign in ("", "u") for bits in (1, 2, 4, 8, 16, 32, 64)}

_ML_INTEGERS = frozenset(f"{sign}int{bits}" for sign in ("", "u") for bits in (1, 2, 4))
_ML_FLOATS = ("bfloat16", "float8_", "float6_", "float4_")
_ABOVE_I64 = float(1 << 63)
_BIT_VIEWS = {("bf16", "uint16"), ("f8", "uint8")}


def _rejected(code: str, message: str) -> OinfError:
    return OinfError(Finding(code=code, message=message))


def as_array(data: object, target: ValueType | None = None) -> Array:
    """Anything array-like as an array of numbers or bools.

    Lists of whole numbers stay whole: NumPy makes floats of those that are partly negative or small and partly above
    2**63. A list without elements suits every `target`. Raises `OinfError` (E_DTYPE, and E_VALUE for whole numbers
    beyond 64 bits).
    """
    try:
        array: Array = np.asarray(data)
    except (ValueError, TypeError, OverflowError) as error:
        raise _rejected("E_DTYPE", f"cannot be made an array: {error}") from error
    if isinstance(data, list | tuple):
        if not array.size and target is not None and target.kind != "float":
            return array.astype(np.int8)
        array = _kept_whole(array, cast("Sequence[object]", data))
    if array.dtype.kind not in "biuf" and not _is_ml_dtype(array.dtype):
        raise _rejected("E_DTYPE", f"arrays of {array.dtype} cannot be stored; convert them to numbers or bools")
    return array


def _kept_whole(array: Array, data: Sequence[object]) -> Array:
    """The array of a list that NumPy made floats or objects of, as whole numbers if it has nothing else."""
    if array.dtype.kind not in "fO" or not array.size:
        return array
    if array.dtype.kind == "f" and not array.max() >= _ABOVE_I64:
        return array
    elements = np.asarray(data, object).reshape(-1).tolist()
    if not all(isinstance(each, int | np.integer) and not isinstance(each, bool) for each in elements):
        return array
    low, high = min(elements), max(elements)
    if low < 0 or high >= 1 << 64:
        raise _rejected(
            "E_VALUE", f"whole numbers from {_brief(low)} to {_brief(high)} fit no type of 64 bits together"
        )
    return np.asarray(data, np.uint64)


def _brief(number: int) -> str:
    return str(number) if abs(number) < 1 << 128 else f"one of {number.bit_length()} bits"


def _is_ml_dtype(dtype: np.dtype[Any]) -> bool:
    return dtype.name in _ML_INTEGERS or dtype.name.startswith(_ML_FLOATS)


def default_type(array: Array) -> ValueType:
    """The value type that keeps an array's own type; raises `OinfError` (E_DTYPE) where there is none."""
    name = _BY_NUMPY_NAME.get(array.dtype.name)
    if name is None:
        raise _rejected("E_DTYPE", f"no value type corresponds to {array.dtype}; give one with dtype=")
    return value_type(name)


def encode(array: Array, target: ValueType) -> NDArray[np.uint8]:
    """Stored bytes of all elements of an array, in C order. Raises as `encoded_blocks` does."""
    return _encode_all(np.ascontiguousarray(array).reshape(-1), target)


def encoded_blocks(array: Array, target: ValueType) -> Iterator[NDArray[np.uint8]]:
    """Stored bytes of an array in C order, a block at a time, whatever its strides and byte order.

    Raises `OinfError`: E_DTYPE where the kinds do not go together (a float array for an integer type), E_VALUE
    where a value lies outside the type's range.
    """
    if array.flags.c_contiguous:
        flat = array.reshape(-1)
        step = flat.size if _stored_as_is(flat, target) else _BLOCK
        for start in range(0, flat.size, max(step, 1)):
            yield _encode_all(flat[start : start + step], target)
        return
    walk: Any = np.nditer(array, flags=["external_loop", "buffered", "zerosize_ok"], order="C", buffersize=_BLOCK)
    for block in walk:
        if block.size:
            yield _encode_all(np.ascontiguousarray(block), target)


def joined_blocks(blocks: Iterator[object], target: ValueType) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Element counts and stored bytes of arrays that follow one another, split anywhere between elements."""
    per_byte = 8 // target.bits if target.is_packed else 1
    rest: Array | None = None
    for block in blocks:
        flat = np.ascontiguousarray(as_array(block, target)).reshape(-1)
        if rest is not None and rest.size:
            flat = np.concatenate([rest, flat])
        whole = flat.size - flat.size % per_byte
        rest = flat[whole:].copy()
        for start in range(0, whole, _BLOCK):
            part = flat[start : min(start + _BLOCK, whole)]
            yield part.size, _encode_all(part, target)
    if rest is not None and rest.size:
        yield rest.size, _encode_all(rest, target)


def _stored_as_is(array: Array, target: ValueType) -> bool:
    return (
        not target.is_packed
        and _BY_NUMPY_NAME.get(array.dtype.name) == target.name
        and array.dtype.newbyteorder("<") == array.dtype
    )


def _encode_all(flat: Array, target: ValueType) -> NDArray[np.uint8]:
    """Encode in parts small enough to stay in the processor's cache between the steps."""
    step = _CACHED_NBYTES // flat.itemsize & -8
    if flat.size <= step or _stored_as_is(flat, target):
        return _encode_flat(flat, target)
    stored = np.empty(target.stored_nbytes(flat.size), np.uint8)
    nbytes = target.stored_nbytes(step)
    for part in range(-(-flat.size // step)):
        encoded = _encode_flat(flat[part * step : (part + 1) * step], target)
        stored[part * nbytes : part * nbytes + encoded.size] = encoded
    return stored


def _encode_flat(flat: Array, target: ValueType) -> NDArray[np.uint8]:
    if _stored_as_is(flat, target):
        return flat.view(np.uint8)
    if target.kind == "float":
        return _encode_floats(flat, target)
    codes = _whole_numbers(flat, target)
    if target.is_packed:
        return pack(codes.astype(np.uint8 if target.kind == "uint" else np.int8, copy=False), target)
    width = np.dtype(f"<{'i' if target.kind == 'int' else 'u'}{target.bits // 8}")
    return codes.astype(width).view(np.uint8)


def _encode_floats(flat: Array, target: ValueType) -> NDArray[np.uint8]:
    if (target.name, flat.dtype.name) in _BIT_VIEWS:
        message = (
            f"{flat.dtype} for {target.name} could mean numbers or stored bits: "
            "convert numbers to float32, or hand bits to write_raw"
        )
        raise _rejected("E_DTYPE", message)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if target.name in ("bf16", "f8"):
            singles = flat.astype(np.float32, copy=False)
            bits = bf16_from_f32(singles).astype("<u2") if target.name == "bf16" else f8_from_f32(singles)
            return bits.view(np.uint8)
        return flat.astype(f"<f{target.bits // 8}").view(np.uint8)


def _whole_numbers(flat: Array, target: ValueType) -> Array:
    """The elements as native integers, once they are known to fit `target`."""
    if flat.dtype.name in _ML_INTEGERS:
        flat = flat.astype(np.int8)
    if flat.dtype.kind == "b":
        flat = flat.view(np.uint8)
    if flat.dtype.kind not in "iu":
        message = f"an array of {flat.dtype} for {target.name}: round it with astype, or quantise it, first"
        raise _rejected("E_DTYPE", message)
    if not flat.size:
        return flat
    low, high = int(flat.min()), int(flat.max())
    if low < target.low or high > target.high:
        message = f"values {low}..{high} do not fit {target.name} ({target.low}..{target.high})"
        raise _rejected("E_VALUE", message)
    if target.name == "t1" and not flat.all():
        raise _rejected("E_VALUE", "t1 holds -1 and 1 only, and there is a 0")
    return flat
