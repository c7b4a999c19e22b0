"""Views: the elements of a tensor in another order, some of them left out or repeated.

An operator that only moves elements says with a view which element is where, and so do the shape rule and every
backend's kernel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.dims import is_size, length, surely
from openinfer.dims import range as size_range

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True)
class ViewDim:
    """A dim of a view: position ``i`` reads ``i * step`` places further along the dim ``source`` of the tensor.

    ``source`` None: the dim repeats what the others read. Several dims may move along one dim of the tensor.
    """

    extent: int
    source: int | None = None
    step: int = 1


@dataclass(frozen=True, slots=True)
class View:
    """Elements of a tensor in row-major order of ``dims``, the first of them at the place ``start``."""

    start: tuple[int, ...]
    dims: tuple[ViewDim, ...]

    @property
    def extents(self) -> tuple[int, ...]:
        return tuple(dim.extent for dim in self.dims)

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.extents)

    def strides(self, strides: Sequence[int]) -> tuple[int, ...]:
        """Return the stride of each dim, in the unit of the tensor's ``strides``."""
        return tuple(0 if dim.source is None else dim.step * strides[dim.source] for dim in self.dims)

    def offset(self, strides: Sequence[int]) -> int:
        """Return the distance of the first element from the tensor's own first."""
        return sum(place * stride for place, stride in zip(self.start, strides, strict=True))


@dataclass(frozen=True, slots=True)
class Moved:
    """A result of ``shape``: the elements of a view in row-major order."""

    shape: tuple[int, ...]
    view: View


def whole(shape: Sequence[int]) -> tuple[ViewDim, ...]:
    """Return the dims of a tensor as they are."""
    return tuple(ViewDim(extent, axis) for axis, extent in enumerate(shape))


def same_order(source: Sequence[int], shape: Sequence[int]) -> Moved:
    """Return the elements of a tensor of shape ``source`` in their order, under another shape."""
    return Moved(tuple(shape), View((0,) * len(source), whole(source)))


def in_dims(rank: int, dims: Iterable[ViewDim]) -> Moved:
    """Return a result that has the dims of its view, read from the first element on."""
    found = tuple(dims)
    return Moved(tuple(dim.extent for dim in found), View((0,) * rank, found))


def cut(shape: Sequence[int], axes: Sequence[int], ranges: Sequence[range]) -> Moved:
    """Return the part of a tensor at some places of some axes, and everything of the others."""
    places = [size_range(extent) for extent in shape]
    for axis, chosen in zip(axes, ranges, strict=True):
        places[axis] = chosen
    extents = tuple(map(length, places))
    start = tuple(
        0 if surely(lambda extent=extent: extent == 0) else chosen.start
        for chosen, extent in zip(places, extents, strict=True)
    )
    dims = tuple(
        ViewDim(extent, axis, _step(chosen.step, extent))
        for axis, (chosen, extent) in enumerate(zip(places, extents, strict=True))
    )
    return Moved(extents, View(start, dims))


def _step(step: int, extent: int) -> int:
    """Return the distance of two places: from one place to none it has any size, also one beyond any address."""
    if not surely(lambda: extent <= 1):
        return step
    # Of an extent of run time the sign says which end of the range keeps its one place inside.
    return -1 if is_size(extent) and surely(lambda: step < 0) else 1
