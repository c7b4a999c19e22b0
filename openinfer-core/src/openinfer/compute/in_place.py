"""Updates in place: which operands of a computation may lie in the memory of its result."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from openinfer.affine import Index, is_mixed_radix
from openinfer.compute.stage import Read
from openinfer.expr.linear import linearise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.compute.stage import Computation, Stage, Tensor


@lru_cache(maxsize=1024)
def overwritable(computation: Computation, output: str) -> frozenset[str]:
    """Return the inputs that may be overwritten by an output as it is computed, lying exactly where it lies.

    Such an input has the shape and size of elements of the output. One stage alone reads it and is the only one to
    write the output; it reads the input at the very place that it writes, not in the terms of a fold, and it writes
    each place once. So an element is read for the last time before it is overwritten, in whatever order a schedule
    visits the places, if it visits each place once.
    """
    writers = [stage for stage in computation.stages if stage.tensor == output]
    if len(writers) != 1 or not _writes_once(writers[0], computation.tensor(output)):
        return frozenset()
    (stage,) = writers
    target = computation.tensor(output)
    elsewhere = {
        element.tensor
        for other in computation.stages
        for number, element in enumerate(other.elements)
        if isinstance(element, Read)
        and (other is not stage or not _is_here(element.at, stage.at, target) or number in _folded(stage))
    }
    return frozenset(
        tensor.name
        for tensor in computation.inputs
        if tensor.name not in elsewhere and tensor.shape == target.shape and tensor.dtype.bits == target.dtype.bits
    )


def _is_here(at: Sequence[Index], stored_at: Sequence[Index], target: Tensor) -> bool:
    """Whether two places in tensors of one shape are the same."""
    if len(at) != len(stored_at):
        return False
    pairs = zip(at, stored_at, target.shape, strict=True)
    return all(mine == other or extent.constant == 1 for mine, other, extent in pairs)


def _folded(stage: Stage) -> set[int]:
    """Return the numbers of the elements that the terms of a fold use."""
    totals = () if stage.fold is None else stage.fold.totals
    inside = (*(total.term for total in totals), *(lookup.value for lookup in stage.folded_lookups))
    return {number for expr in inside for number in linearise(expr).inputs}


def _writes_once(stage: Stage, target: Tensor) -> bool:
    """Whether it is certain that a stage writes no place twice."""
    folded = stage.fold.axes if stage.fold is not None and stage.fold.running else ()
    axes = {*stage.axes, *folded}
    address = Index()
    for index, extent in zip(stage.at, target.shape, strict=True):
        address = address * extent + index
    used = address.variables()
    return (
        not stage.is_sequential
        and {axis for axis in axes if axis.extent != 1} <= used <= axes
        and is_mixed_radix(address, used) is True
    )
