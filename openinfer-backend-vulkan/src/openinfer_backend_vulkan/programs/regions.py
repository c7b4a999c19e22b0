"""Accesses to regions of states: places are tested and caches grow on the host, shaders move the elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from openinfer.affine import Index, Var
from openinfer.expr import tree
from openinfer.loops import Bind, Buffer, For, Kernel, Load, Store, value_of
from openinfer_backend_vulkan.programs.integers import StepFaultError, reader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openinfer.dtypes import DType
    from openinfer.loops import Value
    from openinfer.plan.regions import Axis, Region
    from openinfer.scalars import Scalar
    from openinfer_backend_vulkan.programs.integers import Integers, Reader

START = Var("start")
"""The parameter of kernels on regions: the place of the first element in the state."""


class Taken(NamedTuple):
    """A region at run time: the place of its first element, and the lengths of its ranges."""

    start: int
    lengths: list[int]


@dataclass(frozen=True, slots=True)
class _Place:
    """An axis at run time: start, end, and whether it is a range."""

    start: int
    end: int
    is_range: bool

    @property
    def length(self) -> int:
        return self.end - self.start


class RegionReader:
    """Evaluates the places of an access, tests them and lets caches grow, all or nothing."""

    def __init__(self, region: Region, integers: Integers, name: str, lengths: Sequence[Index] = ()) -> None:
        self._registers = integers.registers
        self._region = region
        self._table = [_axis_reader(axis, integers, name) for axis in region.table]
        self._inner = [_axis_reader(axis, integers, name) for axis in region.inner]
        self._growth = [(growth, reader(growth.value, integers)) for growth in region.growth]
        self._given = [reader(length, integers) for length in lengths]
        self._name = name

    def take(self) -> Taken:
        """Return the region.

        Raises:
            StepFaultError: ``out-of-range``, ``cache-limit`` or ``shape-mismatch``; nothing has changed then.
        """
        region = self._region
        table = [read() for read in self._table]
        if not region.inner:
            self._need_fit(table)
        reached = [self._reached(growth.limit, read()) for growth, read in self._growth]
        before = list(self._registers) if region.inner and self._given else None
        if all(place.length > 0 for place in table if place.is_range):
            for axis, place in zip(region.table, table, strict=True):
                if axis.grown is not None:
                    self._grow(axis.grown, place.end)
        for growth, value in zip(region.growth, reached, strict=True):
            self._grow(growth.register, value)
        inner = [read() for read in self._inner]
        if region.inner:
            self._need_fit([*table, *inner], before)
        places = [*table, *inner]
        start = sum(place.start * axis.stride for place, axis in zip(places, region.axes, strict=True))
        return Taken(start, [place.length for place in places if place.is_range])

    def _grow(self, register: int, size: int) -> None:
        self._registers[register] = max(self._registers[register], size)

    def _reached(self, limit: int, value: int) -> int:
        if value < 0:
            raise StepFaultError("out-of-range", f"`{self._name}` cannot grow by {value}")
        if value > limit:
            raise StepFaultError("cache-limit", f"`{self._name}` would grow by {value}, it has room for {limit}")
        return value

    def _need_fit(self, places: Sequence[_Place], before: Sequence[int] | None = None) -> None:
        lengths = [place.length for place in places if place.is_range]
        extents = [read() for read in self._given]
        if any(have != wanted for have, wanted in zip(extents, lengths, strict=False)):
            if before is not None:
                self._registers[:] = before
            message = f"a value of the extents {extents} does not fit {lengths} places of `{self._name}`"
            raise StepFaultError("shape-mismatch", message)


def _axis_reader(axis: Axis, integers: Integers, name: str) -> Callable[[], _Place]:
    start, size = reader(axis.start, integers), reader(axis.size, integers)
    end = None if axis.end is None else reader(axis.end, integers)
    current = None if axis.current is None else reader(axis.current, integers)
    constants = axis.start.constant, None if axis.end is None else axis.end.constant, axis.size.constant
    first, last, room = constants
    if first is not None and last is not None and room is not None and 0 <= first <= last <= room:
        whole = _Place(first, last, is_range=True)
        return lambda: whole
    passed = "cache-limit" if axis.is_bound else "out-of-range"
    return lambda: _tested(start, end, size, current, passed, name)


def _tested(start: Reader, end: Reader | None, size: Reader, current: Reader | None, passed: str, name: str) -> _Place:
    first, room = start(), size()
    if end is None:
        if first < 0 or first >= room:
            code = "out-of-range" if first < 0 else passed
            raise StepFaultError(code, f"index {first} of `{name}` is out of range, there are {room} places")
        return _Place(first, first + 1, is_range=False)
    last = end()
    if last < 0 and current is not None:
        last += current()
    if first < 0 or last < first or last > room:
        code = "out-of-range" if first < 0 or last < first else passed
        raise StepFaultError(code, f"places {first}..{last} of `{name}` are out of range, there are {room}")
    return _Place(first, last, is_range=True)


# Kernels: the elements of a region, one for each invocation. Parameters are `START` and the lengths of the ranges.


def loading(region: Region, dtype: DType, size: int) -> Kernel:
    """Return the command that copies a region of a state of ``size`` elements to a tensor of its lengths."""
    state, row = Buffer("x", dtype, Index.of(size)), _Row(region)
    value = value_of(tree.Input(0, dtype), {0: Load(state, row.place)})
    return row.kernel("load", (state,), Buffer("y", dtype, row.count), row.number, value)


def storing(region: Region, dtype: DType, size: int) -> Kernel:
    """Return what copies a tensor of the lengths of a region to it."""
    row = _Row(region)
    source = Buffer("x", dtype, row.count)
    value = value_of(tree.Input(0, dtype), {0: Load(source, row.number)})
    return row.kernel("store", (source,), Buffer("y", dtype, Index.of(size)), row.place, value)


def clearing(region: Region, dtype: DType, size: int, element: Scalar) -> Kernel:
    """Return what fills a region with one value."""
    row = _Row(region)
    value = value_of(tree.literal(element, dtype), {})
    return row.kernel("clear", (), Buffer("y", dtype, Index.of(size)), row.place, value)


class _Row:
    """The loops over a region: ``number`` counts its elements in row-major order, ``place`` is that in the state."""

    def __init__(self, region: Region) -> None:
        ranges = region.ranges
        self._lengths = [Var(f"length{axis}") for axis in range(len(ranges))]
        self._axes = [Var(f"j{axis}", Index.of(length)) for axis, length in enumerate(self._lengths)]
        number, place = Index(), Index.of(START)
        for axis, length, along in zip(self._axes, self._lengths, ranges, strict=True):
            number, place = number * length + axis, place + axis * along.stride
        count = Index.of(1)
        for length in self._lengths:
            count = count * length
        if region.entry > 1:
            element = Var("e", region.entry)
            self._axes.append(element)
            number, place, count = number * region.entry + element, place + element, count * region.entry
        self.number, self.place, self.count = number, place, count

    def kernel(self, name: str, reads: tuple[Buffer, ...], written: Buffer, at: Index, value: Value) -> Kernel:
        body: For | Store = Store(written, at, value)
        for axis in reversed(self._axes):
            body = For(axis, Bind.GROUP, (body,))
        return Kernel(name, (*reads, written), (body,), (START, *self._lengths), "")
