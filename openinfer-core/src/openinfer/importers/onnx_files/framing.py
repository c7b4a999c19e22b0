"""Leaves large numbers in a model file where they are.

Parsing a model holds all of its weights, and reading the file first holds them twice. So raw data of large tensors
are replaced by a reference to their place in the file, in the form that ONNX has for data outside of a model, before
the package ``onnx`` parses the message. Only the frames of protobuf's wire format are read here, never what they
hold; a message that is not well-formed is left as it is, for ``onnx`` to refuse.

Neither ``onnx`` nor ``protobuf`` does this: both parse from bytes in memory and copy every payload into the message, so
that a model is in memory twice, once as the file and once as the message, before a weight is written. Peak memory has
to stay within 1.3 times the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

LARGE = 1 << 16
"""Bytes from which raw data stay in the file."""

_INSIDE: Mapping[str, Mapping[int, str]] = {
    "model": {7: "graph"},
    "graph": {1: "node", 5: "tensor"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph"},
}
"""Fields that hold messages in which tensors may lie, by kind of message and number: those of ``onnx.proto``."""

_RAW_DATA, _EXTERNAL_DATA, _DATA_LOCATION = 9, 13, 14
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DEEPEST = 40


class _MalformedError(Exception):
    """The bytes are not protobuf's wire format."""


def without_large_data(data: memoryview, location: str) -> bytes:
    """Return a model's message in which large raw data are references to ``location``, the file that it comes from."""
    try:
        return b"".join(_rewritten(data, "model", 0, len(data), location, 0))
    except _MalformedError:
        return bytes(data)


def _rewritten(data: memoryview, kind: str, start: int, end: int, location: str, depth: int) -> list[bytes]:
    """Return the parts of a message."""
    if end - start < LARGE or depth > _DEEPEST:
        return [bytes(data[start:end])]
    parts: list[bytes] = []
    for number, wire, first, value, after in _fields(data, start, end):
        inner = _INSIDE.get(kind, {}).get(number)
        if inner is not None and wire == _BYTES:
            made = _rewritten(data, inner, value, after, location, depth + 1)
            parts += [_key(number, _BYTES), _varint(sum(map(len, made))), *made]
        elif kind == "tensor" and number == _RAW_DATA and wire == _BYTES and after - value >= LARGE:
            parts.append(_reference(location, value, after - value))
        else:
            parts.append(bytes(data[first:after]))
    return parts


def _reference(location: str, offset: int, length: int) -> bytes:
    pairs = (("location", location), ("offset", str(offset)), ("length", str(length)))
    entries = (_field(1, key.encode()) + _field(2, value.encode()) for key, value in pairs)
    return b"".join(_field(_EXTERNAL_DATA, entry) for entry in entries) + _key(_DATA_LOCATION, _VARINT) + b"\x01"


def _fields(data: memoryview, start: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield number and wire type of each field, where it starts, where its value does, and where it ends."""
    place = start
    while place < end:
        first = place
        key, place = _read_varint(data, place, end)
        wire = key & 7
        if wire == _BYTES:
            length, value = _read_varint(data, place, end)
            place = value + length
        elif wire == _VARINT:
            value = place
            _, place = _read_varint(data, place, end)
        elif wire in (_FIXED64, _FIXED32):
            value = place
            place += 8 if wire == _FIXED64 else 4
        else:
            raise _MalformedError
        if place > end:
            raise _MalformedError
        yield key >> 3, wire, first, value, place


def _read_varint(data: memoryview, place: int, end: int) -> tuple[int, int]:
    number, shift = 0, 0
    while place < end and shift < 70:
        byte = data[place]
        place += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, place
        shift += 7
    raise _MalformedError


def _key(number: int, wire: int) -> bytes:
    return _varint(number << 3 | wire)


def _field(number: int, value: bytes) -> bytes:
    return _key(number, _BYTES) + _varint(len(value)) + value


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)
