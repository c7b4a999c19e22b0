"""Scratch memory that all calls of a device share: only one of them runs at a time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.array_types import need_room

if TYPE_CHECKING:
    import numpy.typing as npt

ALIGNMENT = 64
"""Bytes; the line of a cache."""


class Workspace:
    """Hands out arrays with undefined content, for use within one call.

    Arrays taken for one call do not overlap; those of different calls do. A block that has become too small lives on
    with the calls that were bound to it, and since each new one is twice as large, all of them together take at most
    twice what the hungriest call needs.
    """

    def __init__(self) -> None:
        self._block = np.empty(0, np.uint8)
        self._used = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the block from which the next call is served."""
        return self._block.nbytes

    def begin(self) -> None:
        """Begin with a new call: what was taken for others may be handed out again."""
        self._used = 0

    def mark(self) -> int:
        """Return a mark for `release`."""
        return self._used

    def release(self, mark: int) -> None:
        """Let what was taken since ``mark`` be handed out again, within the call that is being bound."""
        self._used = min(self._used, mark)

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """Return an array for the call that is being bound.

        Raises:
            MemoryError: there is no such memory.
        """
        need_room(shape, dtype.itemsize)
        nbytes = math.prod(shape) * dtype.itemsize
        if self._used + nbytes > self._block.nbytes:
            self._block = _aligned(max(nbytes, 2 * self._block.nbytes))
            self._used = 0
        start = self._used
        self._used = -(-(start + nbytes) // ALIGNMENT) * ALIGNMENT
        return self._block[start : start + nbytes].view(dtype).reshape(shape)


def _aligned(nbytes: int) -> npt.NDArray[np.uint8]:
    block = np.empty(nbytes + ALIGNMENT, np.uint8)
    first = -block.ctypes.data % ALIGNMENT
    return block[first : first + nbytes]
