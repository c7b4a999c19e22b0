"""Which stored bytes are not values of their type: bool, the tail of packed streams, and t2."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .arrays import as_bytes
from .valuetypes import ValueType

_BLOCK = 1 << 20
_CHECKED = {"bool": "a bool byte is neither 0 nor 1", "t2": "a t2 element has the pattern 10 (-2)"}

Read = Callable[[int, int], memoryview]


def value_problem(read: Read, value_type: ValueType, count: int) -> str | None:
    """What is wrong with the stored bytes of `count` elements, or None.

    `read(start, nbytes)` gives bytes of the payload; no more of them are read than the type makes necessary, and
    those a block at a time.
    """
    tail = count * value_type.bits % 8
    if tail and read(value_type.stored_nbytes(count) - 1, 1)[0] >> tail:
        return f"bits after the last of {count} {value_type.name} elements are not zero"
    if value_type.name not in _CHECKED:
        return None
    nbytes = value_type.stored_nbytes(count)
    for start in range(0, nbytes, _BLOCK):
        problem = _bad_byte(as_bytes(read(start, min(_BLOCK, nbytes - start))), value_type, start)
        if problem is not None:
            return problem
    return None


def range_problem(stored: NDArray[np.uint8], value_type: ValueType, start: int, *, tail: int = 0) -> str | None:
    """What is wrong with some stored bytes of a tensor, those from `start` on, or None.

    `tail` is how many bits of the last byte hold elements, where that byte is the tensor's last; else 0.
    """
    if tail and stored.size and stored[-1] >> tail:
        return f"bits after the last of the {value_type.name} elements are not zero"
    return _bad_byte(stored, value_type, start) if value_type.name in _CHECKED else None


def _bad_byte(block: NDArray[np.uint8], value_type: ValueType, start: int) -> str | None:
    bad = (block >> np.uint8(1)) & np.uint8(0x55) & ~block if value_type.name == "t2" else block > 1
    if not bad.any():
        return None
    position = int(np.flatnonzero(bad)[0])
    return f"{_CHECKED[value_type.name]} (byte {start + position} of the payload is {int(block[position]):#04x})"


def reader_of(payload: memoryview) -> Read:
    """A `Read` over bytes at hand."""
    return lambda start, nbytes: payload[start : start + nbytes]
