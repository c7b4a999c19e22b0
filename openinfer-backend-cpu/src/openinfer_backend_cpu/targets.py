"""Where index inputs point to, as places in a tensor flattened."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.ops.strides import contiguous
from openinfer_backend_cpu.indices import places

if TYPE_CHECKING:
    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]


def flat_places(
    shape: tuple[int, ...], indices: Array, axis: int, what: str, workspace: Workspace
) -> tuple[Array, list[BoundCall]]:
    """Return the flat place of each position of ``indices`` with its place along ``axis`` replaced by the index."""
    found, check = places(indices, shape[axis], what, workspace)
    strides = contiguous(shape)
    base = np.zeros((1,) * indices.ndim, np.int64)
    for dim, (extent, stride) in enumerate(zip(indices.shape, strides, strict=True)):
        if dim != axis:
            along = np.arange(extent, dtype=np.int64) * stride
            base = base + along.reshape(-1, *(1 for _ in range(indices.ndim - 1 - dim)))
    scale = partial(np.multiply, found, strides[axis], out=found)
    return found, [check, scale, partial(np.add, found, base, out=found)]


def tuples_of(indices: Array) -> Array:
    """Return indices with tuples in their last dim: a scalar is a tuple of one."""
    return indices if indices.ndim else indices.reshape(1)


def tuple_places(
    shape: tuple[int, ...], indices: Array, batch: int, what: str, workspace: Workspace
) -> tuple[Array, list[BoundCall]]:
    """Return the place of each tuple (last dim of ``indices``) among the slices that tuples of this length name.

    The first ``batch`` dims of ``shape`` and ``indices`` are the same.
    """
    length = indices.shape[-1]
    named = shape[: batch + length]
    strides = contiguous(named)
    total = workspace.take(indices.shape[:-1], np.dtype(np.int64))
    start = np.zeros((1,) * total.ndim, np.int64)
    for dim in range(batch):
        along = np.arange(shape[dim], dtype=np.int64) * strides[dim]
        start = start + along.reshape(-1, *(1 for _ in range(total.ndim - 1 - dim)))
    calls: list[BoundCall] = [partial(np.copyto, total, start)]
    for place in range(length):
        extent = named[batch + place]
        found, check = places(indices[..., place], extent, f"{what}, dim {batch + place}", workspace)
        scale = partial(np.multiply, found, strides[batch + place], out=found)
        calls += [check, scale, partial(np.add, total, found, out=total)]
    return total, calls


def reshaped(x: Array, shape: tuple[int, ...], workspace: Workspace) -> tuple[Array, list[BoundCall]]:
    """Return x in another shape; where its elements do not lie in order, scratch memory and the call that fills it."""
    if x.flags.c_contiguous:
        return x.reshape(shape), []
    scratch = workspace.take(x.shape, x.dtype)
    return scratch.reshape(shape), [partial(np.copyto, scratch, x)]
