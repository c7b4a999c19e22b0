"""A persistent table or growing matrix: the meaning of its forms of access (``specification: language.accesses``).

Indices and limits are checked first, so that an access that fails changes nothing.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from openinfer.errors import CacheIndexError, CacheLimitError, ShapeError
from openinfer.ir.types import TensorType
from openinfer.simulate.state.entries import DenseEntries, SparseEntries, filled

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

    from openinfer.dtypes import DType
    from openinfer.ir.graph import VarDecl
    from openinfer.simulate.state.entries import Entries, Index, Region

    Array: TypeAlias = npt.NDArray[Any]

Slot: TypeAlias = "int | tuple[int | None, int | None]"
"""One index, or a half-open range whose bounds may be open; a negative end counts from the end."""


_ALL: Slot = (None, None)


class Reading(NamedTuple):
    """The result of a read: elements (packed types: one per item), which alias ``region`` of the cache."""

    array: Array
    region: Region


class Cache:
    """The entries of one variable, and how far it has grown.

    Args:
        decl: its declaration.
        kind: element type and declared shape of an entry.
        fill: initial value of a cell, as an array of rank 0; packed types unpacked.
        pristine: initial entry of a growing matrix, where it is not ``fill`` everywhere.

    Attributes:
        counts: growth of each ``@auto_dim`` extent.
    """

    def __init__(self, decl: VarDecl, kind: TensorType, fill: Array, pristine: Array | None = None) -> None:
        self.name = decl.name
        self.kind = kind
        self.autos = decl.auto_dim
        self.formals = decl.formals
        self.indices = decl.formals[: len(decl.formals) - len(decl.auto_dim)]
        self._limits = dict(decl.fixed)
        self._fill = fill
        self._pristine = pristine
        self.counts: list[int] = [0] * len(self.autos)
        self.entries: Entries = self._initial()

    @property
    def dtype(self) -> DType:
        return self.kind.dtype

    @property
    def sizes(self) -> Index:
        """The size of each table index: its bound where it is ``@fixed``."""
        grown = self.entries.sizes
        if not self._limits:
            return grown
        return tuple([self._limits.get(name, size) for name, size in zip(self.indices, grown, strict=True)])

    @property
    def extents(self) -> Index:
        """The shape of an entry."""
        return self._extents(self.counts)

    @property
    def nbytes(self) -> int:
        """Bytes of the entries that are there, in storage form."""
        return self.entries.count * TensorType(self.dtype, self.extents).nbytes

    def count(self, formal: str) -> int:
        """Return how far an extent has grown."""
        return self.counts[self.autos.index(formal)]

    # Access

    def read(self, slots: Sequence[Slot], *, grows: bool = True) -> Reading:
        """Return what an access reads; single indices may create entries and grow extents unless ``grows`` is off.

        Raises:
            CacheIndexError: an index or range lies where nothing can be.
            CacheLimitError: an index passes its ``@fixed`` bound.
        """
        quick = self._stored(slots)
        if quick is not None:
            return quick
        table, auto = slots[: len(self.indices)], slots[len(self.indices) :]
        region = self._region(table)
        selects = any(not isinstance(slot, int) for slot in auto)
        counts = self.counts if selects else self._grown(auto)
        cut = self._selection(auto) if selects else None
        index = _whole_index(region)
        if not grows and counts != self.counts:
            raise CacheIndexError(f"`{self.name}` has grown by {self.counts}, {counts} is more: fetching grows nothing")
        if grows:
            self._grow(counts)
            if index is not None and not selects:
                self._made_room(index).touch(index)
        array = self.entries.view(region)
        return Reading(array if cut is None else array[(..., *cut)], region)

    def write(self, slots: Sequence[Slot], array: Array) -> None:
        """Store an entry, whose shape is what all single indices make of it, or the entries of ranges at once.

        The lengths of ranges are the first extents of the value, in the order of the slots.

        Raises:
            CacheIndexError, CacheLimitError: as for `read`; nothing is stored then.
            ShapeError: the value has another shape than the entries.
        """
        if any(not isinstance(slot, int) for slot in slots):
            self._write_range(slots, array)
            return
        if self._stores(slots, array):
            return
        index, counts = self._target(slots)
        wanted = self._extents(counts)
        if array.shape != wanted:
            value_type, needed = TensorType(self.dtype, array.shape), TensorType(self.dtype, wanted)
            raise ShapeError(f"an entry of `{self.name}` is {needed} here, the value is {value_type}")
        self._grow(counts)
        self._made_room(index).write(index, array)

    def _write_range(self, slots: Sequence[Slot], array: Array) -> None:
        region = self._region(slots[: len(self.indices)])
        auto = slots[len(self.indices) :]
        counts = self._grown(auto) if self.autos else self.counts
        ranges = [(slot_range, slot_range + 1) if isinstance(slot_range, int) else slot_range for slot_range in region]
        lengths = tuple(
            end - start
            for slot_range, (start, end) in zip(region, ranges, strict=True)
            if not isinstance(slot_range, int)
        )
        wanted = (*lengths, *self._extents(counts))
        if array.shape != wanted:
            value_type, needed = TensorType(self.dtype, array.shape), TensorType(self.dtype, wanted)
            raise ShapeError(f"these entries of `{self.name}` are {needed} here, the value is {value_type}")
        self._grow(counts)
        if 0 in lengths:
            return
        last = tuple(end - 1 for _, end in ranges)
        entries = self._made_room(last, math.prod(lengths))
        values = array.reshape(*(end - start for start, end in ranges), *self._extents(counts))
        entries.write_box(ranges, values)

    def reset(self, slots: Sequence[Slot] = ()) -> None:
        """Remove entries with these leading indices; without any, restore all initial values.

        Raises:
            CacheIndexError, CacheLimitError: an index lies where nothing can be.
        """
        prefix = tuple(self._position(name, slot) for name, slot in zip(self.indices, slots, strict=False))
        if prefix:
            self.entries.clear(prefix)
            return
        self.counts: list[int] = [0] * len(self.autos)
        self.entries = self._initial()

    # State

    def contents(self) -> Array | dict[Index, Array]:
        """Return the entries: in one array when they are all that the sizes allow, else by index."""
        sizes = self.entries.sizes
        indices = list(self.entries.indices())
        if len(indices) == math.prod(sizes):
            return self.entries.view(tuple((0, size) for size in sizes))
        return {index: self.entries.view(index) for index in indices}

    def load(self, counts: Sequence[int], contents: Array | Mapping[Index, Array]) -> None:
        """Take over growth counts and entries that `check` has accepted."""
        same = list(counts) == self.counts
        self.counts = list(counts)
        if not isinstance(contents, Mapping):
            # Memory that is there already spares a decoder that is taken back the faults of fresh pages.
            entries = self.entries if same and isinstance(self.entries, DenseEntries) else self._no_entries()
            entries.replace(contents)
            self.entries = entries
            return
        self.entries = self._no_entries()
        for index, entry in contents.items():
            self._made_room(index).write(index, entry)

    def check(self, counts: Sequence[int], sizes: Iterable[Index]) -> Index:
        """Return the shape of entries after growth by ``counts``; ``sizes`` are to be inside the bounds.

        Raises:
            CacheLimitError: a count or size passes its ``@fixed`` bound.
        """
        for formal, reached in (*zip(self.autos, counts, strict=True), *self._reached(sizes)):
            limit = self._limits.get(formal)
            if limit is not None and reached > limit:
                raise CacheLimitError(f"`{formal}` of `{self.name}` reaches {reached}: @fixed allows up to {limit}")
        return self._extents(list(counts))

    def _reached(self, sizes: Iterable[Index]) -> Iterator[tuple[str, int]]:
        for index in sizes:
            yield from zip(self.indices, index, strict=True)

    # Accesses that change nothing but cells: what a decoder does in every layer and step

    def _stored(self, slots: Sequence[Slot]) -> Reading | None:
        """Return ranges of which every entry is stored; None for all other accesses, which `read` handles."""
        entries = self.entries
        if self.autos or len(slots) != len(self.indices) or not isinstance(entries, DenseEntries):
            return None
        for slot in slots:
            if not isinstance(slot, int) and (slot[0] is None or slot[1] is None):
                return None
        region = cast("Region", tuple(slots))
        array = entries.stored(region)
        return None if array is None else Reading(array, region)

    def _stores(self, slots: Sequence[Slot], array: Array) -> bool:
        """Store an entry for which there is room; False for all other accesses, which `write` handles."""
        entries = self.entries
        if self.autos or array.shape != self.kind.shape or not isinstance(entries, DenseEntries):
            return False
        return entries.store(cast("Index", tuple(slots)), array)

    # Parts of an access

    def _region(self, slots: Sequence[Slot]) -> Region:
        all_slots = slots if len(slots) == len(self.indices) else [*slots, *[_ALL] * (len(self.indices) - len(slots))]
        sizes = self.sizes
        region: list[int | tuple[int, int]] = []
        for name, slot, size in zip(self.indices, all_slots, sizes, strict=True):
            region.append(self._position(name, slot) if isinstance(slot, int) else self._range(name, slot, size))
        return tuple(region)

    def _position(self, formal: str, slot: Slot) -> int:
        if not isinstance(slot, int):
            raise TypeError(f"expected an index, found the range {slot}")
        if slot < 0:
            raise CacheIndexError(f"index `{formal}` of `{self.name}` is {slot}: it must not be negative")
        limit = self._limits.get(formal)
        if limit is not None and slot >= limit:
            raise CacheLimitError(f"index `{formal}` of `{self.name}` is {slot}: @fixed leaves 0..{limit - 1}")
        return slot

    def _range(self, formal: str, slot: tuple[int | None, int | None], size: int) -> tuple[int, int]:
        start, end = self._bounds(formal, slot, size)
        limit = self._limits.get(formal)
        if limit is not None and end > limit:
            raise CacheLimitError(f"a range of `{formal}` of `{self.name}` ends at {end}: @fixed allows up to {limit}")
        return start, end

    def _bounds(self, formal: str, slot: tuple[int | None, int | None], size: int) -> tuple[int, int]:
        start = 0 if slot[0] is None else slot[0]
        end = size if slot[1] is None else slot[1]
        if 0 <= start <= end:
            return start, end
        where = f"a range of `{formal}` of `{self.name}`"
        if start < 0:
            raise CacheIndexError(f"{where} starts at {start}: only the end may count from the end")
        if end < -size:
            raise CacheIndexError(f"{where} ends {-end} before the end: the size is {size}")
        stop = end + size if end < 0 else end
        if stop < start:
            raise CacheIndexError(f"{where} ends at {stop}, before its start {start}")
        return start, stop

    def _grown(self, slots: Sequence[Slot]) -> list[int]:
        """Return the counts after single indices on growing extents, which are counts and not positions."""
        counts = list(self.counts)
        for axis, (formal, slot) in enumerate(zip(self.autos, slots, strict=False)):
            if not isinstance(slot, int) or slot < 0:
                raise CacheIndexError(f"count `{formal}` of `{self.name}` is {slot}: it must not be negative")
            limit = self._limits.get(formal)
            if limit is not None and slot > limit:
                raise CacheLimitError(f"count `{formal}` of `{self.name}` is {slot}: @fixed allows up to {limit}")
            counts[axis] = max(counts[axis], slot)
        return counts

    def _selection(self, slots: Sequence[Slot]) -> tuple[int | slice, ...]:
        """Return positions and ranges on the extents; extents without a slot are taken whole."""
        all_slots = [*slots, *[(None, None)] * (len(self.autos) - len(slots))]
        return tuple(map(self._selected, self.autos, all_slots, self.extents))

    def _selected(self, formal: str, slot: Slot, extent: int) -> int | slice:
        if not isinstance(slot, int):
            start, end = self._bounds(formal, slot, extent)
            if end > extent:
                raise CacheIndexError(f"a range of `{formal}` of `{self.name}` ends at {end}: the extent is {extent}")
            return slice(start, end)
        if not 0 <= slot < extent:
            raise CacheIndexError(f"position {slot} of `{formal}` of `{self.name}`: the extent is {extent}")
        return slot

    def _target(self, slots: Sequence[Slot]) -> tuple[Index, list[int]]:
        table, auto = slots[: len(self.indices)], slots[len(self.indices) :]
        index = tuple([self._position(name, slot) for name, slot in zip(self.indices, table, strict=True)])
        return index, self._grown(auto) if self.autos else self.counts

    def _extents(self, counts: list[int]) -> Index:
        if not self.autos:
            return self.kind.shape
        return tuple(base + count for base, count in zip(self.kind.shape, counts, strict=True))

    def _grow(self, counts: list[int]) -> None:
        if counts == self.counts:
            return
        before, self.counts = self.counts, counts
        try:
            self.entries.resize(self.extents)
        except MemoryError:
            self.counts = before
            raise

    def _made_room(self, index: Index, more: int = 1) -> Entries:
        """Return the entries after choosing how to hold them with some more, up to an index."""
        if isinstance(self.entries, DenseEntries) and not self.entries.stays_dense(index, more):
            self.entries = SparseEntries(self.entries, len(self.indices), self.extents, self._fill)
        return self.entries

    def _no_entries(self) -> DenseEntries:
        bounds = tuple(self._limits.get(name, sys.maxsize) for name in self.indices)
        return DenseEntries(bounds, self.extents, self._fill)

    def _initial(self) -> DenseEntries:
        entries = self._no_entries()
        if not self.indices:
            entries.write((), filled(self.kind.shape, self._fill) if self._pristine is None else self._pristine)
        return entries


def _whole_index(region: Region) -> Index | None:
    """Return the one entry that a region is, or None when it has ranges."""
    index = tuple(position for position in region if isinstance(position, int))
    return index if len(index) == len(region) else None


def overlaps(region: Region, slots: Sequence[Slot]) -> bool:
    """Whether a region holds an entry that an access with these first slots may change."""
    for slot, selected in zip(slots, region, strict=False):
        start, end = (selected, selected + 1) if isinstance(selected, int) else selected
        if isinstance(slot, int) and not start <= slot < end:
            return False
    return True
