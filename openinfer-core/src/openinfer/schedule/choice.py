"""Choosing the schedule of a stage from the distances between the elements that it touches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.compute import Read
from openinfer.schedule.loops import Loop, Schedule, plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Index, Var
    from openinfer.compute import Stage
    from openinfer.layout import Layout

STRIP = 16
"""Elements of a strip: those of f32 that a cache line of 64 bytes holds."""


def choose(stage: Stage, layouts: Mapping[str, Layout]) -> Schedule:
    """Return the schedule of a stage for a processor with caches.

    Places are visited in row-major order. Where that would use one element of each cache line of an operand, as in a
    transposition, an axis along which the operand is contiguous is walked in strips, the strip innermost, so that a
    line is used whole before it leaves the cache.
    """
    axes = stage.axes
    if stage.fold is not None or stage.is_sequential or stage.lookups or not axes:
        return plain(axes)
    for element in stage.elements:
        if isinstance(element, Read):
            contiguous = _contiguous_axis(axes, layouts[element.tensor].address(element.at))
            if contiguous is not None:
                return _strips(axes, contiguous)
    return plain(axes)


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
