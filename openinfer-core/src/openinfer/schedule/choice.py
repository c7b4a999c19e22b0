"""Choosing the schedule of a stage from the distances between the elements that it touches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.compute import Read
from openinfer.compute.stage import expressions_of
from openinfer.expr.linear import linearise
from openinfer.schedule.elementwise import by_address, in_lanes
from openinfer.schedule.loops import Loop, Schedule, plain
from openinfer.schedule.tiling import tiled

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Index, Var
    from openinfer.arch import TargetInfo
    from openinfer.compute import Stage
    from openinfer.layout import Layout

STRIP = 16
"""Elements of a strip: those of f32 that a cache line of 64 bytes holds."""


def choose(
    stage: Stage,
    layouts: Mapping[str, Layout],
    target: TargetInfo | None = None,
    within: Mapping[Var, int] | None = None,
) -> Schedule:
    """Return the schedule of a stage for a processor with caches, and for its vector registers where a target is given.

    Without a target places are visited in row-major order. Where that would use one element of each cache line of an
    operand, as in a transposition, an axis along which the operand is contiguous is walked in strips, the strip
    innermost, so that a line is used whole before it leaves the cache.

    With a target, lanes lie along an axis on which the result is contiguous, or along a folded one; folds are cut into
    tiles (`openinfer.schedule.tiling`). Folds in sequential order keep it.

    Args:
        layouts: where tensors lie, by name. Operands that it does not have are constants that `packing` places for the
            schedule.
        within: how many places of an axis are computed at a time, where loops around the stage walk it.
    """
    if target is not None and _is_regular(stage):
        lanes = target.lanes(_itemsize(stage))
        found = (
            in_lanes(stage, layouts, lanes)
            if stage.fold is None
            else tiled(stage, layouts, target, lanes, within or {})
        )
        if found is not None:
            return found
    axes = stage.axes
    if stage.fold is not None or stage.is_sequential or stage.lookups or not axes:
        return plain(axes)
    for element in stage.elements:
        if isinstance(element, Read) and element.tensor in layouts:
            contiguous = _contiguous_axis(axes, layouts[element.tensor].address(element.at))
            if contiguous is not None:
                return _strips(axes, contiguous)
    return plain(axes) if target is None or not _is_regular(stage) else by_address(stage, layouts)


def _is_regular(stage: Stage) -> bool:
    """Return whether places may be visited several at once: nothing is looked up, checked, or updated in order."""
    if stage.lookups or stage.checks or stage.is_sequential:
        return False
    fold = stage.fold
    axes = stage.axes if fold is None else (*stage.axes, *fold.axes)
    if fold is not None and (fold.running or any(axis.extent == 0 for axis in fold.axes)):
        return False
    types = [i.dtype for value in expressions_of(stage) for i in linearise(value).instructions]
    return all(isinstance(axis.extent, int) for axis in axes) and not any(dtype.is_packed for dtype in types)


def _itemsize(stage: Stage) -> int:
    """Return the bytes of the widest type in the arithmetic of a stage."""
    values = expressions_of(stage)
    return max(-(-i.dtype.bits // 8) for value in values for i in linearise(value).instructions)


def _contiguous_axis(axes: Sequence[Var], address: Index) -> Var | None:
    """Return the axis along which an operand is contiguous, where the last axis steps from line to line."""
    last = axes[-1]
    if abs(address.coefficient(last) or 0) < STRIP or not _is_long(last):
        return None
    return next((axis for axis in axes[:-1] if address.coefficient(axis) == 1 and _is_long(axis)), None)


def _is_long(axis: Var) -> bool:
    return isinstance(axis.extent, int) and axis.extent >= 2 * STRIP


def _strips(axes: Sequence[Var], axis: Var) -> Schedule:
    outer = (Loop(other, STRIP if other == axis else 1) for other in axes)
    return Schedule((*outer, Loop(axis)))
