"""Places that the elements of index inputs name, for definitions by stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dims import surely
from openinfer.dtypes import BOOL, I64
from openinfer.expr import tree

if TYPE_CHECKING:
    from openinfer.affine import Var
    from openinfer.compute import Builder, Value
    from openinfer.compute.builder import Operand


def looked_up(k: Builder, index: Value, extent: int, *, negative: bool = True) -> Var:
    """Return the place along a dim of ``extent`` that an element of an index input names.

    Negative indices count from the end where ``negative``; others that are out of range are errors at run time.
    """
    place = counted_from_end(k, index, extent) if negative else index.cast(I64)
    return k.lookup(place, extent, _rule(index, extent, negative=negative))


def counted_from_end(k: Builder, index: Value, extent: int) -> Value:
    """Return an index as i64, a negative one counted from the end of a dim of ``extent``.

    An unsigned index past 2**63 - 1 becomes negative: it names no place.
    """
    place = index.cast(I64)
    if index.dtype.minimum == 0:
        return place
    # Compilers make this choice without a branch.
    end = k.apply(tree.select, place < 0, k.constant(extent, I64), k.constant(0, I64))
    return place + end


def _rule(index: Value, extent: int, *, negative: bool) -> str:
    if surely(lambda: extent == 0):
        return "there is nothing to index"
    lowest = -extent if negative and index.dtype.minimum != 0 else 0
    return f"indices are {lowest} to {extent - 1}"


def refuse_all(k: Builder, y: Operand) -> None:
    """Append the stage of a result that has elements although there is nothing to index: any of them is an error."""
    at = k.axes(*y.shape)
    k.refuse(k.constant(True, BOOL), "there is nothing to index")
    y[at] = k.constant(0, I64)
