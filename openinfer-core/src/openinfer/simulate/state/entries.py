"""Entries of a persistent cache in host memory: one growing array where indices run densely, else an array for each.

A cache without table indices has the one entry ``()``. All entries have one shape, which only grows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from openinfer.array_types import need_room

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]

Index: TypeAlias = tuple[int, ...]
Region: TypeAlias = "tuple[int | tuple[int, int], ...]"
"""One position or half-open range for each table index, inside or beyond what is stored."""

LOOSE_BYTES = 1 << 20
"""Size up to which a table is one array, however few of its entries are there."""

LOOSE_SHARE = 8
"""Beyond that size, the maximum number of cells per existing entry of a table in one array."""


class Entries(Protocol):
    """Entries by index; cells that nothing was stored to hold the initial value."""

    @property
    def sizes(self) -> Index:
        """The size along each table index: 1 + the largest index in use, or 0."""
        ...

    @property
    def count(self) -> int:
        """The number of entries."""
        ...

    def view(self, region: Region) -> Array:
        """Return a region as a view or a copy: lengths of the ranges, then the shape of an entry."""
        ...

    def touch(self, index: Index) -> None:
        """Create an entry; its cells keep their values."""
        ...

    def write(self, index: Index, array: Array) -> None:
        """Store an entry."""
        ...

    def write_box(self, ranges: Sequence[tuple[int, int]], array: Array) -> None:
        """Store the entries of half-open ranges, none of which is empty, in one array."""
        ...

    def clear(self, prefix: Index) -> None:
        """Remove all entries with these leading indices."""
        ...

    def resize(self, shape: Index) -> None:
        """Enlarge the shape of every entry; elements keep their indices."""
        ...

    def indices(self) -> Iterator[Index]:
        """Yield the indices of all entries, in ascending order."""
        ...


class DenseEntries:
    """Entries in one array, with room to grow along table indices and along the first axis of the entry.

    Args:
        bounds: for each table index, what it stays below; there is never room beyond.
        shape: shape of an entry.
        fill: initial value of a cell, as an array of rank 0.

    Attributes:
        array: all cells, spare ones included; replaced when it becomes too small.
        present: which entries are there.
    """

    def __init__(self, bounds: Index, shape: Index, fill: Array) -> None:
        axes = len(bounds)
        self._axes = axes
        self._bounds = bounds
        self._shape = shape
        self._fill = fill
        self._sizes = [0] * axes
        self.array = filled((*(0,) * axes, *shape), fill)
        self.present = np.zeros((0,) * axes, np.bool_)

    @property
    def sizes(self) -> Index:
        return tuple(self._sizes)

    @property
    def count(self) -> int:
        return int(np.count_nonzero(self.present))

    def view(self, region: Region) -> Array:
        places: list[int | slice] = []
        for selected, extent in zip(region, self.present.shape, strict=True):
            cut, end = (selected, selected + 1) if isinstance(selected, int) else (slice(*selected), selected[1])
            if end > extent:
                return self.view(region) if self._made_room(region) else self._padded(region)
            places.append(cut)
        return self._cut(self.array[(*places, ...)])

    def _cut(self, array: Array) -> Array:
        """Return cells without the spare rows of the entries."""
        if not self._shape or array.shape[-len(self._shape)] == self._shape[0]:
            return array
        return array[(..., slice(self._shape[0]), *(slice(None) for _ in self._shape[1:]))]

    def _made_room(self, region: Region) -> bool:
        """Make room for a region that is not all stored, if that takes little more memory than a copy of it would."""
        last = [selected if isinstance(selected, int) else selected[1] - 1 for selected in region]
        box = [max(position + 1, extent) for position, extent in zip(last, self.present.shape, strict=True)]
        cells, wanted = math.prod(box), math.prod(end - start for start, end in _ranges(region))
        small = cells * math.prod(self._shape) * self.array.itemsize <= LOOSE_BYTES
        if small or cells <= 2 * wanted:
            self._reserve(tuple(last))
            return True
        return False

    def _padded(self, region: Region) -> Array:
        """Return a copy of a region that is stored only in part."""
        copy = filled((*(end - start for start, end in _ranges(region)), *self._shape), self._fill)
        for axis, selected in enumerate(region):
            if isinstance(selected, int) and selected >= self.present.shape[axis]:
                return copy
        stored = tuple(
            selected if isinstance(selected, int) else (min(selected[0], extent), min(selected[1], extent))
            for selected, extent in zip(region, self.present.shape, strict=True)
        )
        part = self.view(stored)
        copy[tuple(slice(end - start) for start, end in _ranges(stored))] = part
        return copy

    def touch(self, index: Index) -> None:
        if not _within(index, self.present.shape):
            self._reserve(index)
        self.present[index] = True
        for axis, position in enumerate(index):
            if position >= self._sizes[axis]:
                self._sizes[axis] = position + 1

    def write(self, index: Index, array: Array) -> None:
        self.touch(index)
        self._cut(self.array[(*index, ...)])[...] = array

    def stored(self, region: Region) -> Array | None:
        """Return the view of a region with ranges that is all stored; None for others."""
        places: list[int | slice] = []
        whole = True
        for selected, extent, bound in zip(region, self.present.shape, self._bounds, strict=True):
            if isinstance(selected, int):
                start, end = selected, selected + 1
                places.append(selected)
            else:
                start, end = selected
                places.append(slice(start, end))
                whole = False
            if not 0 <= start <= end <= extent or end > bound:
                return None
        return None if whole else self.array[tuple(places)]

    def store(self, index: Index, array: Array) -> bool:
        """Store an entry for which there is room, and return True; else return False and store nothing."""
        for position, extent, bound in zip(index, self.present.shape, self._bounds, strict=True):
            if not 0 <= position < extent or position >= bound:
                return False
        self.array[index] = array
        self.present[index] = True
        for axis, position in enumerate(index):
            if position >= self._sizes[axis]:
                self._sizes[axis] = position + 1
        return True

    def clear(self, prefix: Index) -> None:
        if _within(prefix, self.present.shape):
            self.array[prefix] = self._fill
            self.present[prefix] = False
        for axis in range(self._axes):
            others = tuple(other for other in range(self._axes) if other != axis)
            there = np.flatnonzero(self.present.any(axis=others))
            self._sizes[axis] = int(there[-1]) + 1 if there.size else 0

    def resize(self, shape: Index) -> None:
        extents = self.array.shape[self._axes :]
        if shape[1:] != extents[1:] or shape[0] > extents[0]:
            room = shape[0] if shape[0] <= extents[0] else max(shape[0], 2 * self._shape[0])
            self._move((*self.present.shape, room, *shape[1:]))
        self._shape = shape

    def indices(self) -> Iterator[Index]:
        yield from (tuple(map(int, index)) for index in np.argwhere(self.present))

    def replace(self, array: Array) -> None:
        """Replace all entries by 0, 1, ... along every index; allocated room is kept."""
        sizes = array.shape[: self._axes]
        if not all(sizes):
            sizes = (0,) * self._axes
        last, box = tuple(size - 1 for size in sizes), tuple(map(slice, sizes))
        if not _within(last, self.present.shape):
            self._reserve(last)
        for axis, (size, before) in enumerate(zip(sizes, self._sizes, strict=True)):
            others = (*box[:axis], slice(size, before))
            self.array[others] = self._fill
            self.present[others] = False
        self._sizes = [*sizes]
        self.present[box] = True
        self._cut(self.array[(*box, ...)])[...] = array.reshape(*sizes, *self._shape)

    def write_box(self, ranges: Sequence[tuple[int, int]], array: Array) -> None:
        last = tuple(end - 1 for _, end in ranges)
        if not _within(last, self.present.shape):
            self._reserve(last)
        box = tuple(slice(*bounds) for bounds in ranges)
        self._cut(self.array[(*box, ...)])[...] = array
        self.present[box] = True
        self._sizes = [max(size, end) for size, (_, end) in zip(self._sizes, ranges, strict=True)]

    def stays_dense(self, index: Index, more: int = 1) -> bool:
        """Whether one array still suits after some entries up to this one are added."""
        if _within(index, self.present.shape):
            return True
        cells = math.prod(max(size, position + 1) for size, position in zip(self._sizes, index, strict=True))
        if cells * math.prod(self._shape) * self.array.itemsize <= LOOSE_BYTES:
            return True
        return cells <= LOOSE_SHARE * (int(np.count_nonzero(self.present)) + more)

    def _reserve(self, index: Index) -> None:
        """Make room for an entry; an axis that is too short doubles, up to its bound, which keeps appending cheap."""
        room = self.present.shape
        wider = tuple(
            extent if position < extent else max(position + 1, min(2 * extent, bound))
            for position, extent, bound in zip(index, room, self._bounds, strict=True)
        )
        self._move((*wider, *self.array.shape[self._axes :]))
        present = filled(wider, np.array(False))
        present[tuple(map(slice, room))] = self.present
        self.present = present

    def _move(self, shape: Index) -> None:
        larger = filled(shape, self._fill)
        kept = self._cut(self.array)
        larger[tuple(map(slice, kept.shape))] = kept
        self.array = larger


class SparseEntries:
    """Entries in an array each."""

    def __init__(self, dense: DenseEntries, axes: int, shape: Index, fill: Array) -> None:
        """Begin with the entries of one array."""
        self._axes = axes
        self._shape = shape
        self._fill = fill
        self._entries = {index: dense.view(index).copy() for index in dense.indices()}
        self._sizes = list(dense.sizes)

    @property
    def sizes(self) -> Index:
        return tuple(self._sizes)

    @property
    def count(self) -> int:
        return len(self._entries)

    def view(self, region: Region) -> Array:
        ranges = [(selected, selected + 1) if isinstance(selected, int) else selected for selected in region]
        copy = filled((*(end - start for start, end in ranges), *self._shape), self._fill)
        for index in self._inside(ranges):
            copy[tuple(position - start for position, (start, _) in zip(index, ranges, strict=True))] = self._entries[
                index
            ]
        return copy[(*(0 if isinstance(selected, int) else slice(None) for selected in region), ...)]

    def _inside(self, ranges: list[tuple[int, int]]) -> Iterator[Index]:
        if math.prod(end - start for start, end in ranges) < len(self._entries):
            yield from (index for index in product(*(range(*bounds) for bounds in ranges)) if index in self._entries)
            return
        for index in self._entries:
            if all(start <= position < end for position, (start, end) in zip(index, ranges, strict=True)):
                yield index

    def touch(self, index: Index) -> None:
        if index not in self._entries:
            self._entries[index] = filled(self._shape, self._fill)
            self._sizes = [max(size, position + 1) for size, position in zip(self._sizes, index, strict=True)]

    def write(self, index: Index, array: Array) -> None:
        self.touch(index)
        self._entries[index][...] = array

    def write_box(self, ranges: Sequence[tuple[int, int]], array: Array) -> None:
        for index in product(*(range(*bounds) for bounds in ranges)):
            self.write(
                index, array[tuple(position - start for position, (start, _) in zip(index, ranges, strict=True))]
            )

    def clear(self, prefix: Index) -> None:
        for index in [index for index in self._entries if index[: len(prefix)] == prefix]:
            del self._entries[index]
        self._sizes = [1 + max((index[axis] for index in self._entries), default=-1) for axis in range(self._axes)]

    def resize(self, shape: Index) -> None:
        for index, entry in self._entries.items():
            larger = filled(shape, self._fill)
            larger[tuple(map(slice, entry.shape))] = entry
            self._entries[index] = larger
        self._shape = shape

    def indices(self) -> Iterator[Index]:
        yield from sorted(self._entries)


def filled(shape: Index, fill: Array) -> Array:
    """Return an array of one value; zeros take no memory until they are written.

    Raises:
        MemoryError: there is no such memory.
    """
    need_room(shape, fill.dtype.itemsize)
    if not fill.tobytes().strip(b"\0"):
        return np.zeros(shape, fill.dtype)
    return np.full(shape, fill)


def _within(index: Index, room: Index) -> bool:
    """Whether places, whose trailing ones may be missing, are less than the extents."""
    for position, extent in zip(index, room, strict=False):  # noqa: SIM110 - a generator takes three times as long
        if position >= extent:
            return False
    return True


def _ranges(region: Region) -> list[tuple[int, int]]:
    return [selected for selected in region if not isinstance(selected, int)]
