"""Which commands have to wait for earlier ones: those that touch what is written, or write what is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer_backend_vulkan.target.places import Place


class Hazards:
    """What commands have touched since the last barrier."""

    def __init__(self) -> None:
        self._read: list[Place] = []
        self._written: list[Place] = []
        self._is_unknown = False

    def wait(self) -> None:
        """Note a barrier."""
        self._read.clear()
        self._written.clear()
        self._is_unknown = False

    def forget(self) -> None:
        """Note that commands were run of which nothing is known, such as those of a loop."""
        self._is_unknown = True

    def needs_barrier(self, reads: Sequence[Place], writes: Sequence[Place]) -> bool:
        """Return whether a command has to wait, and note what it touches."""
        needed = (
            self._is_unknown
            or any(_meet(place, other) for place in (*reads, *writes) for other in self._written)
            or any(_meet(place, other) for place in writes for other in self._read)
        )
        if needed:
            self.wait()
        self._read += reads
        self._written += writes
        return needed


def _meet(one: Place, other: Place) -> bool:
    return one.buffer == other.buffer and one.low < other.high and other.low < one.high


def meets_any(place: Place, others: Sequence[Place]) -> bool:
    """Return whether a place shares bytes with one of some others."""
    return any(_meet(place, other) for other in others)
