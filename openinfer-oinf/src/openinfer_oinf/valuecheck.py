"""Which stored bytes are not values of their type: bool, the tail of packed streams, and t2."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .valuetypes import ValueType

_BLOCK = 1 << 20


def value_problem(stored: NDArray[np.uint8], value_type: ValueType, count: int) -> str | None:
    """What is wrong with the stored bytes of `count` elements, or None; reads them block by block."""
    if value_type.is_packed:
        tail = count * value_type.bits % 8
        if tail and int(stored[-1]) >> tail:
            return f"bits after the last of {count} {value_type.name} elements are not zero"
    if value_type.name == "bool":
        return _first_bad(stored, "a bool byte is neither 0 nor 1", ternary=False)
    if value_type.name == "t2":
        return _first_bad(stored, "a t2 element has the pattern 10 (-2)", ternary=True)
    return None


def _first_bad(stored: NDArray[np.uint8], what: str, *, ternary: bool) -> str | None:
    for start in range(0, stored.size, _BLOCK):
        block = stored[start : start + _BLOCK]
        bad = (block >> np.uint8(1)) & np.uint8(0x55) & ~block if ternary else block > 1
        if bad.any():
            position = start + int(np.flatnonzero(bad)[0])
            return f"{what} (byte {position} of the payload is {int(stored[position]):#04x})"
    return None
