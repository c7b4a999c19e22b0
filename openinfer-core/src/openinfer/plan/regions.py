"""The parts of caches that accesses take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from openinfer.affine import Index


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a state, and the places on it that an access takes.

    Attributes:
        start: the place, or the first of a range.
        end: end (exclusive) of the range; None: one place.
        size: number of places that may be taken. ``is_bound``: it is the bound of a cache that may grow.
        current: what an end below 0 counts from; None: no end is below 0.
        stride: elements between two places.
        room: places that the state has there.
        grown: register of how many places there are, if the access may make that more: it becomes at least the end, but
            not where a range of the table is empty.
    """

    start: Index
    end: Index | None
    size: Index
    stride: int
    room: int
    is_bound: bool = True
    current: Index | None = None
    grown: int | None = None


@dataclass(frozen=True, slots=True)
class Growth:
    """A register becomes a value if it is less; a value below 0 or above ``limit`` is an error."""

    register: int
    value: Index
    limit: int


@dataclass(frozen=True, slots=True)
class Region:
    """The elements of a state that an access takes: axes of its table, growth, and axes of its entries.

    All axes of the table and the growth are tested before anything changes.

    Attributes:
        growth: of the extents of entries.
        entry: elements that lie in a row at each place.
    """

    table: tuple[Axis, ...]
    growth: tuple[Growth, ...] = ()
    inner: tuple[Axis, ...] = ()
    entry: int = 1

    @property
    def axes(self) -> tuple[Axis, ...]:
        return (*self.table, *self.inner)

    @property
    def ranges(self) -> tuple[Axis, ...]:
        """The axes that the value of an access has."""
        return tuple(axis for axis in self.axes if axis.end is not None)

    @property
    def registers(self) -> tuple[int, ...]:
        """The registers that an access may make larger."""
        grown = (axis.grown for axis in self.axes if axis.grown is not None)
        return (*grown, *(growth.register for growth in self.growth))

    def expressions(self) -> tuple[Index, ...]:
        """Return every integer expression of an access."""
        bounds = [bound for axis in self.axes for bound in (axis.start, axis.end, axis.size, axis.current)]
        return (*(bound for bound in bounds if bound is not None), *(growth.value for growth in self.growth))
