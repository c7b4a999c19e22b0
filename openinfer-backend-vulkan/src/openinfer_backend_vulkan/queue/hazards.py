"""Hazards between commands of a queue: the memory that each accesses decides which commands wait for which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

from openinfer_backend_vulkan.memory.blocks import Part, StorageBuffer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from openinfer_backend_vulkan.api.native import Handle

Place: TypeAlias = StorageBuffer | Part
"""Memory that a command touches."""


class Command(Protocol):
    """Work for the device. ``serial`` is unique and never used again."""

    @property
    def serial(self) -> int: ...
    @property
    def reads(self) -> Sequence[Place]: ...
    @property
    def writes(self) -> Sequence[Place]: ...
    def record(self, commands: Handle) -> None: ...


def touched(sequence: Iterable[Command]) -> set[int]:
    """Return the numbers of the storage buffers that commands read or write."""
    return {span(place)[0] for command in sequence for place in (*command.reads, *command.writes)}


def span(place: object) -> tuple[int, int, int | None]:
    """Return the number of a storage buffer, and the bytes of it that a place has: begin, and end or None."""
    if isinstance(place, Part):
        return id(place.storage), place.offset, place.offset + place.nbytes
    return id(place), 0, None


class _Touched:
    """The bytes that commands touched since the last barrier."""

    def __init__(self) -> None:
        self._spans: dict[int, list[tuple[int, int | None]]] = {}

    def meets(self, places: Sequence[object]) -> bool:
        """Return whether one of some places shares bytes with these."""
        for place in places:
            number, begin, end = span(place)
            for first, last in self._spans.get(number, ()):
                if (last is None or begin < last) and (end is None or first < end):
                    return True
        return False

    def add(self, places: Sequence[object]) -> None:
        for place in places:
            number, begin, end = span(place)
            self._spans.setdefault(number, []).append((begin, end))


def barriers_before(sequence: Sequence[Command]) -> list[int]:
    """Return the positions of commands that touch what one since the last barrier writes, or write what one reads."""
    positions: list[int] = []
    read, written = _Touched(), _Touched()
    for number, command in enumerate(sequence):
        reads, writes = command.reads, command.writes
        if written.meets(reads) or written.meets(writes) or read.meets(writes):
            positions.append(number)
            read, written = _Touched(), _Touched()
        read.add(reads)
        written.add(writes)
    return positions
