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
    """Return where a place of the view is in the result: the same one in row-major order."""
    if surely(lambda: moved.shape == moved.view.extents):
        return tuple(map(Index.of, axes))
    flat = sum((axis * stride for axis, stride in zip(axes, contiguous(moved.view.extents), strict=True)), Index())
    strides = zip(contiguous(moved.shape), moved.shape, strict=True)
    return tuple(flat // stride % extent for stride, extent in strides)
