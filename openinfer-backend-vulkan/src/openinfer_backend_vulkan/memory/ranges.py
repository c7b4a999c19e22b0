"""Which parts of a stretch of memory are free: first fit, and neighbours joined when they are given back."""

from __future__ import annotations

import bisect


class FreeRanges:
    """The free parts of ``size`` bytes. Offsets and sizes are in bytes."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._free: list[tuple[int, int]] = [(0, size)] if size else []

    @property
    def is_unused(self) -> bool:
        """Whether nothing is taken."""
        return self._free == [(0, self.size)]

    def take(self, size: int, alignment: int) -> int | None:
        """Return the offset of a part that is free no longer, a multiple of ``alignment``; None where none fits."""
        for number, (begin, end) in enumerate(self._free):
            offset = -(-begin // alignment) * alignment
            if offset + size <= end:
                left = [(begin, offset), (offset + size, end)]
                self._free[number : number + 1] = [part for part in left if part[0] < part[1]]
                return offset
        return None

    def give_back(self, offset: int, size: int) -> None:
        """Make a part free again that `take` returned."""
        end = offset + size
        at = bisect.bisect_left(self._free, (offset, end))
        if at < len(self._free) and self._free[at][0] == end:
            end = self._free.pop(at)[1]
        if at and self._free[at - 1][1] == offset:
            offset = self._free.pop(at - 1)[0]
            at -= 1
        self._free.insert(at, (offset, end))
