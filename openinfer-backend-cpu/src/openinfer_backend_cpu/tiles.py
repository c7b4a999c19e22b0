"""Pieces of large matrix products, which several threads can compute; shapes alone decide them.

A product gives the same bits only if it is cut in the same way, so that one thread computes the pieces too. Each piece
packs its operands again for the processor, and pieces are large enough for that not to show.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]
    Shape: TypeAlias = tuple[int, ...]

LEAST = 1 << 24
"""Products of elements in a piece at least: a third of a millisecond, many times what it takes to wake a thread."""

PACKED = 1 << 11
"""Minimum number of multiplications for each element that is packed again, so that packing takes at most a fiftieth of
the time."""

LEAST_READ = 1 << 22
"""Elements of the matrix in a piece of its product with a vector, where reading them is what takes the time."""

LONG_ROWS = 1 << 14
"""Elements of rows, in a product with a vector, of which the parts are read as quickly as the whole."""

MOST = 64
"""Pieces of a stack of products."""

_LINE = 64
"""Pieces begin at multiples of this many elements, so that no two write to the same line of a cache."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """How a product [..., M, K] x [..., K, N] is cut.

    Attributes:
        stack: the dim of the result along which matrices are told apart, and their spans; None where that is not cut.
        rows, columns: spans of M and N.
    """

    stack: tuple[int, tuple[slice, ...]] | None
    rows: tuple[slice, ...]
    columns: tuple[slice, ...]

    def __len__(self) -> int:
        return (1 if self.stack is None else len(self.stack[1])) * len(self.rows) * len(self.columns)

    def of(self, left: Array, right: Array, out: Array) -> Iterator[tuple[Array, Array, Array]]:
        """Yield the views of operands and result that belong together."""
        for a, b, c in self._stacked(left, right, out):
            for rows in self.rows:
                for columns in self.columns:
                    yield a[..., rows, :], b[..., columns], c[..., rows, columns]

    def _stacked(self, left: Array, right: Array, out: Array) -> Iterator[tuple[Array, Array, Array]]:
        if self.stack is None:
            yield left, right, out
            return
        dim, spans = self.stack
        for span in spans:
            yield _part(left, dim, span), _part(right, dim, span), _part(out, dim, span)


def tiles(left: Shape, right: Shape) -> Tiles:
    """Return how the product of arrays of these shapes, of rank 2 or more, is cut."""
    (m, k), n = left[-2:], right[-1]
    whole = Tiles(None, (slice(0, m),), (slice(0, n),))
    if math.prod(left) * math.prod(right[:-2]) * n < 2 * LEAST_READ:
        return whole
    stack = np.broadcast_shapes(left[:-2], right[:-2])
    if math.prod(stack) == 1:
        rows, columns = _counts(m, k, n)
        return Tiles(None, _spans(m, rows), _spans(n, columns))
    least = LEAST_READ if 1 in (m, n) else LEAST
    extent = max(stack)
    count = min(extent, MOST, math.prod(stack) * m * k * n // least)
    if count < 2:
        return whole
    return Tiles((stack.index(extent) - len(stack), _spans(extent, count, 1)), whole.rows, whole.columns)


def _counts(m: int, k: int, n: int) -> tuple[int, int]:
    """Return into how many pieces M and N are cut: the longer side of a piece while that costs next to nothing."""
    if 1 in (m, n):
        count = max(1, min(max(m, n) // LONG_ROWS, m * k * n // LEAST_READ))
        return (count, 1) if n == 1 else (1, count)
    rows = columns = 1
    while True:
        more = (rows + 1, columns) if 2 * m * columns >= n * rows else (rows, columns + 1)
        # To pack rows once more costs twice what columns cost: the library keeps them in a smaller cache.
        packed = (more[0] - 1) * n + 2 * (more[1] - 1) * m
        if packed * PACKED > m * n or m * k * n < math.prod(more) * LEAST:
            return rows, columns
        rows, columns = more


def _spans(extent: int, count: int, multiple: int = _LINE) -> tuple[slice, ...]:
    """Return at most ``count`` pieces of nearly the same size."""
    step = -(-extent // count)
    if count > 1:
        step = -(-step // multiple) * multiple
    return tuple(slice(first, min(first + step, extent)) for first in range(0, extent, max(step, 1)))


def _part(array: Array, dim: int, span: slice) -> Array:
    """Return a slice along ``dim`` of the stack, counted from its end; an array that is broadcast there is not
    sliced."""
    axis = dim - 2
    if array.ndim < -axis or array.shape[axis] == 1:
        return array
    return array[(..., span, *(slice(None) for _ in range(-axis - 1)))]
