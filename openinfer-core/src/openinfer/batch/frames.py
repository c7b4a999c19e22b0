"""Bytes that go between the caller of a batch and its workers: a JSON object followed by arrays.

::

    8 bytes   length of the JSON text, little-endian
    text      {"head": ..., "arrays": [[element type, shape], ...]}
    payloads  of the arrays, one after the other, in C order

Both ends are processes of ours; nothing in it is ever executed, so that a damaged frame is an error and no more.
"""

from __future__ import annotations

import json
import math
import re
import struct
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.errors import DTypeError, SerializationError
from openinfer.simulate.values import MISMATCH

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]

_LENGTH = struct.Struct("<Q")
_PLAIN = "biufcVUS"
"""Kinds of NumPy's own element types that are sent; the others hold objects or times."""

_STANDARD = re.compile(rf"[<>|=][{_PLAIN}]\d{{1,9}}")
"""Types of NumPy as an array interface writes them."""


def encode(head: Any, arrays: Sequence[Array] = ()) -> bytes:
    """Return a frame.

    Raises:
        DTypeError: an array holds objects.
        TypeError, ValueError: ``head`` is not JSON.
    """
    described = [[_type_name(array), list(array.shape)] for array in arrays]
    text = json.dumps({"head": head, "arrays": described}, default=_plain).encode()
    return b"".join([_LENGTH.pack(len(text)), text, *(array.tobytes() for array in arrays)])


def decode(frame: bytes) -> tuple[Any, list[Array]]:
    """Return what was given to `encode`, arrays as copies.

    Raises:
        SerializationError: the bytes are not a frame.
    """
    try:
        (length,) = _LENGTH.unpack_from(frame)
        document = json.loads(frame[_LENGTH.size : _LENGTH.size + length])
        return document["head"], _arrays(frame, _LENGTH.size + length, document["arrays"])
    except (struct.error, ValueError, TypeError, KeyError, AttributeError) as error:
        raise SerializationError(f"a message of a batch is damaged: {error}") from error


def encode_values(values: Mapping[str, Any]) -> bytes:
    """Return the values of one input: numbers and lists as they are, anything else as an array.

    Raises:
        DTypeError: ``insert-mismatch``, a value is nothing of that.
    """
    head: list[dict[str, Any]] = []
    arrays: list[Array] = []
    for name, value in values.items():
        if isinstance(value, bool | int | float | list | tuple):
            head.append({"name": name, "value": value})
            continue
        head.append({"name": name, "array": len(arrays)})
        arrays.append(_array(name, value))
    try:
        return encode(head, arrays)
    except (TypeError, ValueError) as error:
        raise DTypeError(f"a value cannot be sent to a worker: {error}", code=MISMATCH) from error


def decode_values(frame: bytes) -> dict[str, Any]:
    """Return what was given to `encode_values`."""
    head, arrays = decode(frame)
    return {item["name"]: arrays[item["array"]] if "array" in item else item["value"] for item in head}


def _array(name: str, value: Any) -> Array:
    if hasattr(value, "__array__"):
        return np.asarray(value)
    if hasattr(value, "__dlpack__"):
        # The copy is NumPy's own, wherever the value lies.
        return np.array(np.from_dlpack(value))
    message = f"`{name}` takes numbers, lists of them or arrays, found {type(value).__name__}"
    raise DTypeError(message, code=MISMATCH)


def _plain(value: Any) -> Any:
    """Return an element of a list as JSON knows it."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is neither a number nor a list")


def _type_name(array: Array) -> str:
    # Types of ml_dtypes have kind V or f as well, and a name that only their package knows.
    if array.dtype.isbuiltin == 2:
        return array.dtype.name
    if array.dtype.kind not in _PLAIN:
        raise DTypeError(f"an array of {array.dtype} cannot be sent to a worker: it holds no numbers", code=MISMATCH)
    return array.dtype.str


def _dtype(name: str) -> np.dtype[Any]:
    # Other names mean something to NumPy too, such as records and old aliases.
    if _STANDARD.fullmatch(name):
        return np.dtype(name)
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name))


def _arrays(frame: bytes, place: int, described: Sequence[Any]) -> list[Array]:
    arrays: list[Array] = []
    for name, shape in described:
        dtype, count = _dtype(name), math.prod(shape)
        # frombuffer refuses to read nothing at the end of the bytes.
        found: Array = np.frombuffer(frame, dtype, count, place) if count else np.empty(0, dtype)
        arrays.append(found.reshape(shape).copy())
        place += count * dtype.itemsize
    return arrays
