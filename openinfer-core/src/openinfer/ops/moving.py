"""Views as stages: data movement written for the builder of computations."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from openinfer.affine import Index
from openinfer.dims import surely
from openinfer.ops.strides import contiguous

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.affine import Var
    from openinfer.compute import Builder
    from openinfer.compute.builder import Operand
    from openinfer.ops.views import Moved, View


def move(k: Builder, x: Operand, y: Operand, moved: Moved) -> None:
    """Append the stage that makes ``y`` the elements of a view of ``x``."""
    if surely(lambda: moved.view.count == 0) or surely(lambda: prod(moved.shape) == 0):
        axes = k.axes(*moved.shape)
        y[axes] = k.constant(0, y.dtype)
        return
    axes = k.axes(*moved.view.extents)
    y[_place(axes, moved)] = x[_source(axes, moved.view)]


def _source(axes: Sequence[Var], view: View) -> tuple[Index, ...]:
    at = [Index.of(start) for start in view.start]
    for axis, dim in zip(axes, view.dims, strict=True):
        if dim.source is not None:
            at[dim.source] = at[dim.source] + axis * dim.step
    return tuple(at)


def _place(axes: Sequence[Var], moved: Moved) -> tuple[Index, ...]:
    """Return where a place of the view is in the result: the same one in row-major order.

    Dims that both have, from the first and from the last one on, are passed over: places along them are the same.
    """
    extents, shape = moved.view.extents, moved.shape
    if surely(lambda: shape == extents):
        # Along dims of 1 too, so that the view is seen to be a copy of elements.
        return tuple(map(Index.of, axes))
    own = [axis for axis, extent in enumerate(extents) if not _is_one(extent)]
    wanted = [axis for axis, extent in enumerate(shape) if not _is_one(extent)]
    at = dict.fromkeys(range(len(shape)), Index())
    for end in (0, -1):
        while own and wanted and _are_equal(extents[own[end]], shape[wanted[end]]):
            at[wanted.pop(end)] = Index.of(axes[own.pop(end)])
    steps = contiguous([extents[axis] for axis in own])
    flat = sum((axes[axis] * step for axis, step in zip(own, steps, strict=True)), Index())
    for axis, step in zip(wanted, contiguous([shape[axis] for axis in wanted]), strict=True):
        at[axis] = flat // step % shape[axis]
    return tuple(at.values())


def _is_one(extent: int) -> bool:
    return surely(lambda: extent == 1)


def _are_equal(one: int, other: int) -> bool:
    return surely(lambda: one == other)
