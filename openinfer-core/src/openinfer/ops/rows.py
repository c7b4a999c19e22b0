"""Rows that elements take in a result that an operator counts, for definitions by stages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.dtypes import BOOL, I64, U32
from openinfer.expr import tree
from openinfer.ops.elementwise import work_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.affine import Var
    from openinfer.compute import Builder, Value
    from openinfer.compute import Operand as Tensor
    from openinfer.scalars import Scalar


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows that places take: one for each that is chosen, in row-major order.

    A place that is not chosen has the row of the next one that is, which is written later and takes its place. Those
    after the last that is chosen share the row after it, which nobody reads.

    Attributes:
        shape: extents of the places.
        flag: whether a place is chosen.
        counted: how many are chosen up to each place, itself included.
    """

    k: Builder
    shape: tuple[int, ...]
    flag: Callable[[tuple[Var, ...]], Value]
    counted: Tensor

    @classmethod
    def of(cls, k: Builder, shape: tuple[int, ...], flag: Callable[[tuple[Var, ...]], Value]) -> Rows:
        """Append the stage that counts."""
        counted, at = k.temporary(U32, *shape), k.axes(*shape)
        counted[at] = k.fold(flag(at).cast(U32), at, tree.add, start=0, running=True)
        return cls(k, shape, flag, counted)

    def row(self, at: tuple[Var, ...], most: int) -> Var:
        """Return the row of a place, of a result with so many rows at most."""
        row = self.counted[at] - self.flag(at).cast(U32)
        return self.k.lookup(row, most, "the rows that are counted fit the result")

    def count(self, n: Tensor) -> None:
        """Append the stage that stores how many places are chosen."""
        at = self.k.axes(*self.shape)
        n[()] = self.k.sum(self.flag(at).cast(I64), at)


def is_not_zero(k: Builder, element: Value) -> Value:
    """Return whether an element is not zero; NaN is not."""
    if element.dtype is BOOL:
        return element
    wide = element.cast(work_type(element.dtype))
    return k.apply(tree.ne, wide, k.constant(0, wide.dtype))


def zero_of(value: Value | Tensor) -> Scalar:
    """Return zero, or false."""
    return False if value.dtype is BOOL else 0


def store_zeros(k: Builder, y: Tensor) -> None:
    """Append the stage that fills a result with zeros."""
    y[k.axes(*y.shape)] = k.constant(zero_of(y), y.dtype)
