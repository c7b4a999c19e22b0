"""Layouts of constant operands in the order in which a schedule reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.compute import Read
from openinfer.layout import Digit, Layout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.affine import Var
    from openinfer.compute import Stage
    from openinfer.schedule.loops import Schedule


def packing(stage: Stage, schedule: Schedule, operand: str) -> Layout | None:
    """Return the layout in which a constant operand is read from its first element to its last.

    Its digits are those of the loops of the schedule, outermost first, so that an axis in lanes is padded to whole
    lanes. None: a place of the operand is something else than axes and zeros, or it is read in several ways.
    """
    places = {element.at for element in stage.elements if isinstance(element, Read) and element.tensor == operand}
    at = next(iter(places)) if len(places) == 1 else ()
    dims = _dims(at)
    if not dims:
        return None
    left = {axis: axis.extent for axis in dims}
    digits: list[Digit] = []
    for loop in schedule.loops:
        size = left.get(loop.axis)
        if isinstance(size, int):
            digits.append(Digit(dims[loop.axis], loop.step, Index.of(-(-size // loop.step))))
            left[loop.axis] = loop.step
    for axis, size in left.items():
        if isinstance(size, int) and size > 1:
            digits.append(Digit(dims[axis], 1, Index.of(size)))
    shape = {dim: Index.of(axis.extent or 0) for axis, dim in dims.items()}
    kept = tuple(digit for digit in digits if digit.extent.constant != 1)
    return Layout(tuple(shape.get(dim, Index.of(1)) for dim in range(len(at))), kept)


def _dims(at: Sequence[Index]) -> dict[Var, int] | None:
    """Return the dimension that each axis walks; None: a place is something else than an axis or 0."""
    dims: dict[Var, int] = {}
    for dim, index in enumerate(at):
        if index == Index():
            continue
        (axis, *others) = index.variables() or (None,)
        if axis is None or others or index != Index.of(axis) or axis in dims or not isinstance(axis.extent, int):
            return None
        dims[axis] = dim
    return dims
