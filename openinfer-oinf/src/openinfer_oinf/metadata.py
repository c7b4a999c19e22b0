"""Metadata values: conversion between Python values and payload bytes."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from .arrays import Array, as_bytes, decode, plain_numbers
from .encoding import as_array, default_type, encode
from .errors import Finding, OinfError
from .layout import U32, U64, encode_string, is_name, up8
from .valuetypes import ValueType, by_tag, value_type

UTF8_SUFFIX = ".utf8"


@dataclass(frozen=True)
class Bitset:
    """A string of bits of any length, first bit first; accepts bools, 0 and 1."""

    bits: tuple[bool, ...]

    def __init__(self, bits: Iterable[bool | int]) -> None:
        values = tuple(bits)
        if any(bit not in (0, 1) for bit in values):
            raise _rejected("E_VALUE", "the bits of a Bitset are True, False, 0 or 1")
        object.__setattr__(self, "bits", tuple(bool(bit) for bit in values))

    def __len__(self) -> int:
        return len(self.bits)

    def stored(self) -> bytes:
        """The bits in bytes, lowest bit first; unused bits of the last byte are 0."""
        return np.packbits(np.array(self.bits, bool), bitorder="little").tobytes()


@dataclass(frozen=True)
class ScalarValue:
    """A metadata value of a stated type: a number, a bool, a str, or a list of numbers."""

    value: object
    dtype: str | int | None = None


MetadataValue = bool | int | float | str | Bitset | NDArray[Any]


@dataclass(frozen=True, eq=False)
class TypedValue:
    """A metadata value with the name of its type; for arrays that of the elements."""

    dtype: str
    value: MetadataValue

    @property
    def is_array(self) -> bool:
        return isinstance(self.value, np.ndarray)


@dataclass(frozen=True, slots=True)
class MetadataPayload:
    """What a metadata entry stores: type tag, and `value_nbytes` bytes."""

    tag: int
    data: bytes
    troubles_reference: bool = False


def _rejected(code: str, message: str) -> OinfError:
    return OinfError(Finding(code=code, message=message, table="metadata"))


def encode_metadata(key: str, value: object) -> MetadataPayload:
    """The payload of a value, its type chosen as described in the package's documentation.

    Whole numbers take the smallest type, floats f32, lists become arrays, arrays keep their type.
    Raises `OinfError`: E_META_TYPE for kinds that have no type, E_VALUE for values that do not fit.
    """
    dtype: ValueType | None = None
    if isinstance(value, ScalarValue):
        dtype = None if value.dtype is None else value_type(value.dtype)
        value = value.value
    if isinstance(value, Bitset):
        return _encode_bitset(value, dtype)
    if isinstance(value, str):
        return _encode_text(key, value, dtype)
    if isinstance(value, np.ndarray | list | tuple):
        return _encode_array(_metadata_array(cast("Array | Sequence[object]", value), dtype), dtype)
    return _encode_scalar(value, dtype)


def _encode_bitset(value: Bitset, dtype: ValueType | None) -> MetadataPayload:
    if dtype is not None and dtype.kind != "bitset":
        raise _rejected("E_META_TYPE", f"a Bitset cannot be stored as {dtype.name}")
    stored = value.stored()
    payload = U32.pack(len(value)) + U32.pack(len(stored)) + stored
    return MetadataPayload(13, payload.ljust(up8(len(payload)), b"\0"), troubles_reference=len(value) > 8)


def _encode_text(key: str, value: str, dtype: ValueType | None) -> MetadataPayload:
    if dtype is not None and dtype.kind != "str":
        raise _rejected("E_META_TYPE", f"a str cannot be stored as {dtype.name}")
    if key.endswith(UTF8_SUFFIX):
        try:
            return _encode_array(np.frombuffer(value.encode(), np.uint8), None)
        except UnicodeEncodeError as error:
            raise _rejected("E_VALUE", f"a text with half of a surrogate pair at {error.start} has no UTF-8") from error
    if not is_name(value):
        message = (
            f"{value[:80]!r} holds characters other than A-Z a-z 0-9 . _ - (or none); "
            f"free text goes under a key that ends in {UTF8_SUFFIX!r}"
        )
        raise _rejected("E_VALUE", message)
    return MetadataPayload(14, encode_string(value))


def _metadata_array(value: Array | Sequence[object], dtype: ValueType | None) -> Array:
    if isinstance(value, np.ndarray):
        return as_array(value)
    array = as_array(value, dtype)
    if dtype is not None:
        return array
    if array.dtype.kind == "f":
        return _checked_f32(array)
    if array.dtype.kind == "i":
        # Python lists take the smallest signed type; without elements NumPy calls a list float64.
        low, high = int(array.min(initial=0)), int(array.max(initial=0))
        return array.astype(np.promote_types(np.min_scalar_type(min(low, -1)), np.min_scalar_type(-high - 1)))
    return array


def _checked_f32(array: Array) -> Array:
    with np.errstate(over="ignore"):
        narrow = array.astype(np.float32)
    if (np.isinf(narrow) & np.isfinite(array)).any():
        raise _rejected("E_VALUE", "a value does not fit f32; use ScalarValue(value, 'f64')")
    return narrow


def _encode_array(array: Array, dtype: ValueType | None) -> MetadataPayload:
    element = default_type(array) if dtype is None else dtype
    if not element.is_element:
        raise _rejected("E_META_TYPE", f"an array cannot be stored as {element.name}")
    head = U32.pack(element.tag) + U32.pack(array.ndim) + b"".join(U64.pack(dim) for dim in array.shape)
    payload = head + encode(array, element).tobytes()
    padded = payload.ljust(up8(len(payload)), b"\0")
    return MetadataPayload(15, padded, troubles_reference=padded != payload)


def _encode_scalar(value: object, dtype: ValueType | None) -> MetadataPayload:
    number, default = _number(value)
    kind = dtype or default
    if dtype is None and kind.name == "f32":
        _checked_f32(np.array(number))
    if not kind.is_element:
        raise _rejected("E_META_TYPE", f"a {type(value).__name__} cannot be stored as {kind.name}")
    return MetadataPayload(kind.tag, encode(as_array(number), kind).tobytes())


def _number(value: object) -> tuple[bool | int | float, ValueType]:
    """A scalar as a Python number, and the type it takes when none is stated."""
    if isinstance(value, bool | np.bool_):
        return bool(cast("bool", value)), value_type("bool")
    if isinstance(value, int | np.integer):
        whole = operator.index(cast("int", value))
        return whole, _smallest_integer(whole)
    if isinstance(value, float | np.floating) or _is_low_float(value):
        return float(cast("float", value)), value_type("f32")
    message = f"a {type(value).__name__} has no metadata type; use bool, int, float, str, Bitset, lists or arrays"
    raise _rejected("E_META_TYPE", message)


def _is_low_float(value: object) -> bool:
    return type(value).__name__ in ("bfloat16", "float8_e5m2")


def _smallest_integer(value: int) -> ValueType:
    for bits in (8, 16, 32, 64):
        candidate = value_type(f"{'u' if value >= 0 else 'i'}{bits}")
        if candidate.low <= value <= candidate.high:
            return candidate
    raise _rejected("E_VALUE", f"{value} does not fit 64 bits")


def decode_metadata(tag: int, payload: memoryview) -> TypedValue:
    """The value of a payload that has been found sound."""
    kind = by_tag(tag)
    if kind.kind == "str":
        (length,) = U32.unpack_from(payload, 0)
        return TypedValue("str", bytes(payload[4 : 4 + length]).decode("utf-8", "backslashreplace"))
    if kind.kind == "bitset":
        (count,) = U32.unpack_from(payload, 0)
        bits = np.unpackbits(as_bytes(payload[8:]), count=count, bitorder="little")
        return TypedValue("bitset", Bitset(bits.tolist()))
    if kind.kind == "ndarray":
        return _decode_array(payload)
    array = decode(payload, kind, (), 1)
    if kind.kind == "bool":
        return TypedValue("bool", payload[0] != 0)
    return TypedValue(kind.name, _scalar_of(array, kind))


def _scalar_of(array: Array, kind: ValueType) -> int | float:
    if kind.kind == "float":
        return float(plain_numbers(array.reshape(1).view(np.uint8), kind)[0])
    return int(array)


def _decode_array(payload: memoryview) -> TypedValue:
    (tag,), (ndim,) = U32.unpack_from(payload, 0), U32.unpack_from(payload, 4)
    element = by_tag(tag)
    shape = tuple(U64.unpack_from(payload, 8 + 8 * axis)[0] for axis in range(ndim))
    count = math.prod(shape)
    start = 8 + 8 * ndim
    data = payload[start : start + element.stored_nbytes(count)]
    return TypedValue(element.name, decode(data, element, shape, count))


def text_of(key: str, typed: TypedValue) -> MetadataValue:
    """What a reader hands out: the text of a key ending in `.utf8`, else the value itself."""
    value = typed.value
    if not (key.endswith(UTF8_SUFFIX) and isinstance(value, np.ndarray)):
        return value
    if typed.dtype != "u8" or value.ndim != 1:
        return value
    try:
        return value.tobytes().decode()
    except UnicodeDecodeError:
        return value
