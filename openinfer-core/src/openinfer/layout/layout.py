"""A layout is a mixed-radix number whose digits are digits of the tensor's indices.

Row-major, channels last, blocked, packed and interleaved are all lists of digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.affine import Index

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Digit:
    """``index // stride % extent`` of one dimension's index.

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
        shape: extents of the tensor.
    """

    shape: tuple[Index, ...]
    digits: tuple[Digit, ...]

    @property
    def size(self) -> Index:
        """Number of elements of the buffer, padding included."""
        total = Index.of(1)
        for digit in self.digits:
            total = total * digit.extent
        return total

    def address(self, at: Sequence[Index]) -> Index:
        """Return the address of the element at some place."""
        total = Index()
        for digit in self.digits:
            index = at[digit.dim] // digit.stride
            total = total * digit.extent + (index if self._is_leading(digit) else index % digit.extent)
        return total

    def _is_leading(self, digit: Digit) -> bool:
        """Return whether the digit holds every value of its index, so that no remainder has to be taken."""
        if digit.stride == 1 and digit.extent == self.shape[digit.dim]:
            return True
        low = (digit.extent * digit.stride - self.shape[digit.dim]).interval.low
        return low is not None and low >= 0


def row_major(shape: Sequence[Index]) -> Layout:
    """Return the layout of a tensor whose last index runs fastest."""
    return Layout(tuple(shape), tuple(Digit(dim, 1, extent) for dim, extent in enumerate(shape)))
