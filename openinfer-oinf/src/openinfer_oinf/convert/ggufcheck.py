"""Checks of a GGUF file before the library reads it: counts, lengths and nesting that the file cannot hold.

The library trusts them, and would make an object for each of 2**60 elements that an array only claims to have. Layout:
the format's specification (ggml/docs/gguf.md), version 2 and 3.
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass
from pathlib import Path
from struct import Struct

from .model import source_error

# The library makes several objects for each element of an array.
_ELEMENTS = 1 << 22
_LARGEST_NDIM = 64
_STRING, _ARRAY = 8, 9
_WIDTHS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_HEAD = Struct("<4sIQQ")


def check_gguf(path: Path) -> None:
    """Raise `OinfError` (E_SOURCE) for a file whose key-value pairs or tensor infos do not fit it."""
    with path.open("rb") as file:
        if path.stat().st_size < _HEAD.size:
            raise source_error("too short for a GGUF file")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            _check(_Walk(data, "<"))


@dataclass
class _Walk:
    """A place in the file, from which numbers are read and over which bytes are stepped."""

    data: mmap.mmap
    order: str
    position: int = 0
    elements: int = 0

    def skip(self, nbytes: int) -> None:
        if nbytes > len(self.data) - self.position:
            raise source_error(f"what begins at byte {self.position} takes {nbytes} bytes, beyond the file's end")
        self.position += nbytes

    def number(self, code: str) -> int:
        field = Struct(self.order + code)
        start = self.position
        self.skip(field.size)
        (value,) = field.unpack_from(self.data, start)
        return int(value)

    def string(self) -> None:
        self.skip(self.number("Q"))

    def value(self, kind: int) -> None:
        if kind == _STRING:
            self.string()
        elif kind == _ARRAY:
            self.array()
        else:
            self.skip(self.width(kind))

    def width(self, kind: int) -> int:
        if kind not in _WIDTHS:
            raise source_error(f"unknown value type {kind} before byte {self.position}")
        return _WIDTHS[kind]

    def array(self) -> None:
        kind, count = self.number("I"), self.number("Q")
        self.elements += count
        if kind == _ARRAY:
            raise source_error(f"an array of arrays at byte {self.position}, which is not supported")
        if self.elements > _ELEMENTS:
            raise source_error(f"arrays of more than {_ELEMENTS} elements before byte {self.position}")
        if kind != _STRING:
            self.skip(count * self.width(kind))
            return
        for _ in range(count):
            self.string()


def _check(walk: _Walk) -> None:
    magic, version, tensors, pairs = _HEAD.unpack_from(walk.data, 0)
    if magic != b"GGUF":
        raise source_error("no GGUF file: it begins otherwise")
    if version & 0xFFFF == 0:
        # The other byte order, as the library reports it.
        walk.order = ">"
        _, version, tensors, pairs = Struct(">4sIQQ").unpack_from(walk.data, 0)
    if version not in (2, 3):
        raise source_error(f"version {version} of GGUF; 2 and 3 can be read")
    walk.skip(_HEAD.size)
    # Every step takes bytes, so that counts beyond what the file holds end where it does.
    for _ in range(pairs):
        walk.string()
        walk.value(walk.number("I"))
    for _ in range(tensors):
        walk.string()
        ndim = walk.number("I")
        if ndim > _LARGEST_NDIM:
            raise source_error(f"a tensor of {ndim} dimensions before byte {walk.position}")
        walk.skip(8 * ndim + 12)
