"""A layout is a mixed-radix number whose digits are digits of the tensor's indices.

Row-major, channels last, blocked, packed and interleaved are all lists of digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

from openinfer.affine import Index, rejoined

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Digit:
    """``(index + halo) // stride % extent`` of one dimension's index.

    Attributes:
        dim: number of the dimension.
        extent: number of values; an index over parameters where it is known at run time only.
    """

    dim: int
    stride: int
    extent: Index


@dataclass(frozen=True, slots=True)
class Layout:
    """Where elements lie: the digits form their address, the most significant first.

    Attributes:
        shape: extents of the tensor. One that is known at run time only is not more than the room that the one digit of
            its dimension has.
        halo: for each dimension, how many places lie before the first element and after the last; () for none.
        fill: the element in the places of the halo.
    """

    shape: tuple[Index, ...]
    digits: tuple[Digit, ...]
    halo: tuple[tuple[int, int], ...] = ()
    fill: int = 0

    @property
    def size(self) -> Index:
        """Number of elements of the buffer, halo and padding included."""
        total = Index.of(1)
        for digit in self.digits:
            total = total * digit.extent
        return total

    @property
    def length(self) -> int:
        """Number of elements of the buffer, where it is a number.

        Raises:
            TypeError: it is known at run time only.
        """
        length = self.size.constant
        if length is None:
            raise TypeError(f"a layout of {self.size} elements has a length that is known at run time only")
        return length

    def address(self, at: Sequence[Index]) -> Index:
        """Return the address of the element at some place, which may lie in the halo."""
        total = Index()
        for digit in self.digits:
            index = (at[digit.dim] + self._before(digit.dim)) // digit.stride
            total = total * digit.extent + (index if self._is_leading(digit) else index % digit.extent)
        return rejoined(total)

    def room(self, dim: int) -> int | None:
        """Return how many places of a dimension have an address: its extent, more where the layout is padded.

        None: the extent is known at run time only.
        """
        reach = [digit.extent.constant for digit in self.digits if digit.dim == dim]
        strides = [digit.stride for digit in self.digits if digit.dim == dim]
        known = [stride * extent for stride, extent in zip(strides, reach, strict=True) if extent is not None]
        if len(known) < len(reach):
            return None
        return max(known, default=1) - self._before(dim)

    def pack(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return a flat array with the elements of ``array`` where they lie; halo and padding are 0.

        Raises:
            ValueError: the shape depends on parameters, or is not that of the array.
        """
        import numpy as np

        shape = tuple(extent.constant for extent in self.shape)
        if shape != array.shape or self.size.constant is None:
            raise ValueError(f"the layout has shape {self.shape}, the array {array.shape}")
        nested = self._nested()
        if nested is not None:
            # Padded to whole digits, an array has a dimension for each of them: large weights are packed by one copy.
            around = [
                (self._before(dim), prod(self._extent(digit) for digit in digits) - self._before(dim) - size)
                for dim, (digits, size) in enumerate(zip(nested, array.shape, strict=True))
            ]
            whole = np.pad(array, around) if any(map(any, around)) else array
            order = [digit for digits in nested for digit in digits]
            apart = whole.reshape([self._extent(digit) for digit in order])
            return np.ascontiguousarray(apart.transpose([order.index(digit) for digit in self.digits])).reshape(-1)
        out = np.zeros(self.size.constant, array.dtype)
        address, step = np.zeros([1] * array.ndim, np.int64), 1
        for digit in reversed(self.digits):
            first, count = self._before(digit.dim), array.shape[digit.dim]
            value = np.arange(first, first + count, dtype=np.int64) // digit.stride % self._extent(digit) * step
            address = address + value.reshape([-1 if dim == digit.dim else 1 for dim in range(array.ndim)])
            step *= self._extent(digit)
        out[address] = array
        return out

    def _nested(self) -> list[list[Digit]] | None:
        """Return the digits of each dimension, the most significant first, if each is a number of whole ones below it.

        None: they are not, or they have no room for all places.
        """
        if len(set(self.digits)) < len(self.digits):
            return None
        found: list[list[Digit]] = []
        for dim, extent in enumerate(self.shape):
            digits = sorted((d for d in self.digits if d.dim == dim), key=lambda d: (-d.stride, -self._extent(d)))
            room = 1
            for digit in reversed(digits):
                if digit.stride != room:
                    return None
                room *= self._extent(digit)
            if room < self._before(dim) + extent.evaluate({}):
                return None
            found.append(digits)
        return found

    @staticmethod
    def _extent(digit: Digit) -> int:
        return digit.extent.evaluate({})

    def _before(self, dim: int) -> int:
        return self.halo[dim][0] if self.halo else 0

    def _is_leading(self, digit: Digit) -> bool:
        """Return whether the digit holds every value of its index, so that no remainder has to be taken."""
        if not self.halo and digit.stride == 1 and digit.extent == self.shape[digit.dim]:
            return True
        if self.shape[digit.dim].constant is None and self._is_alone(digit):
            return True
        after = self.halo[digit.dim][1] if self.halo else 0
        reach = self.shape[digit.dim] + self._before(digit.dim) + after
        covered = digit.extent * digit.stride - reach
        return covered.interval.low is not None and covered.interval.low >= 0

    def _is_alone(self, digit: Digit) -> bool:
        return not self.halo and digit.stride == 1 and sum(other.dim == digit.dim for other in self.digits) == 1


def row_major(shape: Sequence[Index]) -> Layout:
    """Return the layout of a tensor whose last index runs fastest."""
    return _row_major(tuple(shape))


@lru_cache(maxsize=4096)
def _row_major(shape: tuple[Index, ...]) -> Layout:
    return Layout(shape, tuple(Digit(dim, 1, extent) for dim, extent in enumerate(shape)))
