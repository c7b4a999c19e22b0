"""Reductions that NumPy has an inner loop for; all others are folded from their definition."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.bound_calls import in_order
from openinfer.dtypes import FLOAT, NUMERIC
from openinfer_backend_cpu.accumulate import accumulator_type
from openinfer_backend_cpu.axes import reduced_axes
from openinfer_backend_cpu.registration import kernel
from openinfer_backend_cpu.staging import Staging, compute_dtype

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.ops.calls import OpCall
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]

_NUMERIC = frozenset(dtype.name for dtype in NUMERIC)
_FLOAT = frozenset(dtype.name for dtype in FLOAT)


@kernel("sum_axis", dtypes=_NUMERIC)
def sum_axis(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Sum over axes: floats in their compute type (pairwise), integers wrapping."""
    x = inputs[0]
    axes = reduced_axes(call.settings.get("axes"), x.ndim)
    computed = accumulator_type(call)
    dtype = storage_dtype(computed)
    staging = Staging(workspace)
    source = staging.load(x, dtype)
    target = _kept(staging.deliver(outputs[0], computed, call.outputs[0].dtype), x.shape, axes)
    return staging.around(partial(np.add.reduce, source, axis=axes, dtype=dtype, out=target))


@kernel("max_axis", dtypes=_NUMERIC)
def max_axis(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Maximum over axes; a NaN sticks in first place and is skipped elsewhere (``nan="propagate"``: it wins)."""
    return _extremum(call, inputs[0], outputs[0], workspace, np.maximum, -np.inf)


@kernel("min_axis", dtypes=_NUMERIC)
def min_axis(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Minimum over axes; NaN as for `max_axis`."""
    return _extremum(call, inputs[0], outputs[0], workspace, np.minimum, np.inf)


def _extremum(call: OpCall, x: Array, out: Array, workspace: Workspace, better: np.ufunc, worst: float) -> BoundCall:
    axes = reduced_axes(call.settings.get("axes"), x.ndim)
    dtype = compute_dtype(x.dtype)
    staging = Staging(workspace)
    source = staging.load(x, dtype)
    target = _kept(staging.store(out, dtype), x.shape, axes)
    if dtype.kind != "f" or call.settings.get("nan") == "propagate":
        return staging.around(partial(better.reduce, source, axis=axes, out=target))
    first = source[(*(0 if axis in axes else slice(None) for axis in range(x.ndim)), ...)]
    unordered = workspace.take(first.shape, np.dtype(np.bool_))
    return staging.around(
        partial(_skipping_nan, source, axes, target, better, worst),
        in_order([partial(np.isnan, first, out=unordered), partial(np.copyto, target, first, where=unordered)]),
    )


def _skipping_nan(source: Array, axes: tuple[int, ...], target: Array, better: np.ufunc, worst: float) -> None:
    """Reduce the numbers; some loops of NumPy's fmax and fmin return NaN for a signalling NaN."""
    better.reduce(source, axis=axes, out=target)
    if np.isnan(target).any():
        better.reduce(source, axis=axes, out=target, where=np.equal(source, source), initial=worst)


def _kept(out: Array, shape: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    """Return the output without the dimensions of size 1 that ``keepdims`` left in it."""
    return out.reshape(tuple(extent for axis, extent in enumerate(shape) if axis not in axes))


@kernel("is_finite", dtypes=_FLOAT)
def is_finite(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Whether every element is finite; true for no elements."""
    del call
    staging = Staging(workspace)
    source = staging.load(inputs[0], compute_dtype(inputs[0].dtype))
    finite = workspace.take(source.shape, np.dtype(np.bool_))
    whole = tuple(range(source.ndim))
    return staging.around(
        partial(np.isfinite, source, out=finite),
        partial(np.logical_and.reduce, finite, axis=whole, out=outputs[0].reshape(())),
    )


@kernel("global_avg_pool", dtypes=_FLOAT)
def global_avg_pool(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Mean over all spatial dimensions of x [N, C, ...]."""
    del call
    x = inputs[0]
    dtype = compute_dtype(x.dtype)
    staging = Staging(workspace)
    source = staging.load(x, dtype)
    target = staging.store(outputs[0], dtype).reshape(x.shape[:2])
    count = dtype.type(math.prod(x.shape[2:]))
    return staging.around(
        partial(np.add.reduce, source, axis=tuple(range(2, x.ndim)), out=target),
        partial(np.divide, target, count, out=target),
    )
