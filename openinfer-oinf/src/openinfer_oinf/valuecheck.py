"""Which stored bytes are not values of their type: bool, the tail of packed streams, and t2."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .arrays import as_bytes
from .valuetypes import ValueType

_BLOCK = 1 << 20

Read = Callable[[int, int], memoryview]


def value_problem(read: Read, value_type: ValueType, count: int) -> str | None:
    """What is wrong with the stored bytes of `count` elements, or None.

    `read(start, nbytes)` gives bytes of the payload; no more of them are read than the type makes necessary, and
    those a block at a time.
    """
    tail = count * value_type.bits % 8
    if tail and read(value_type.stored_nbytes(count) - 1, 1)[0] >> tail:
        return f"bits after the last of {count} {value_type.name} elements are not zero"
    if value_type.name == "bool":
        return _first_bad(read, count, "a bool byte is neither 0 nor 1", ternary=False)
    if value_type.name == "t2":
        nbytes = value_type.stored_nbytes(count)
        return _first_bad(read, nbytes, "a t2 element has the pattern 10 (-2)", ternary=True)
    return None


def _first_bad(read: Read, nbytes: int, what: str, *, ternary: bool) -> str | None:
    for start in range(0, nbytes, _BLOCK):
        block = as_bytes(read(start, min(_BLOCK, nbytes - start)))
        bad = (block >> np.uint8(1)) & np.uint8(0x55) & ~block if ternary else block > 1
        if bad.any():
            position = int(np.flatnonzero(bad)[0])
            return f"{what} (byte {start + position} of the payload is {int(block[position]):#04x})"
    return None


def reader_of(payload: memoryview) -> Read:
    """A `Read` over bytes at hand."""
    return lambda start, nbytes: payload[start : start + nbytes]
