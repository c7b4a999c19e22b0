"""Pools, one tap of all windows at a time."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.dtypes import FLOAT, SINT, UINT
from openinfer.ops.windows import per_dim, windows
from openinfer_backend_cpu.registration import kernel
from openinfer_backend_cpu.staging import Staging, compute_dtype, quieted
from openinfer_backend_cpu.windows import Windows, is_held, padded_input

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.ops.calls import OpCall
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]

_FLOAT = frozenset(dtype.name for dtype in FLOAT)
_NUMBERS = frozenset(dtype.name for dtype in (*FLOAT, *SINT, *UINT))


MOST_TAPS = 1 << 20
"""Maximum number of taps for which a call whose padding is not stored uses the definition, which visits all taps that
reach the image at some position."""


def _supported(call: OpCall) -> bool:
    where = _windows(call)
    return is_held(call, where.padded) or math.prod(len(dim.reading) for dim in where.dims) > MOST_TAPS


@kernel("max_pool2d", dtypes=_NUMBERS, supports=_supported)
@kernel("max_pool1d", dtypes=_NUMBERS, supports=_supported)
def max_pool(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Maximum over the valid positions of each window; a NaN is skipped unless a window holds nothing else."""
    x = inputs[0]
    dtype = compute_dtype(x.dtype)
    where = _windows(call)
    floating = dtype.kind == "f"
    border = np.nan if floating else np.iinfo(dtype).min
    source, fill = padded_input(x, where, dtype, border, workspace)
    staging = Staging(workspace)
    target = staging.store(outputs[0], dtype)
    if not floating:
        return staging.around(*fill, *_accumulate(source, where, target, np.maximum))
    quiet, make_quiet = quieted(source, workspace, in_place=source is not x)
    return staging.around(*fill, make_quiet, *_accumulate(quiet, where, target, np.fmax))


@kernel("avg_pool2d", dtypes=_FLOAT, supports=_supported)
@kernel("avg_pool1d", dtypes=_FLOAT, supports=_supported)
def avg_pool(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Mean over the valid positions of each window, or with ``count_include_pad`` over the padded extent too."""
    x = inputs[0]
    dtype = compute_dtype(x.dtype)
    where = _windows(call)
    source, fill = padded_input(x, where, dtype, 0, workspace)
    staging = Staging(workspace)
    target = staging.store(outputs[0], dtype)
    counts = _counts(where, include_padding=bool(call.settings.get("count_include_pad"))).astype(dtype)
    divide = partial(np.divide, target, counts, out=target)
    return staging.around(*fill, *_accumulate(source, where, target, np.add), divide)


def _windows(call: OpCall) -> Windows:
    image = call.inputs[0]
    size = () if image is None else image.shape[2:]
    return Windows(windows(size, per_dim(call.settings, "kernel", len(size)), call.settings))


def _accumulate(source: Array, where: Windows, target: Array, combine: np.ufunc) -> list[BoundCall]:
    views = [source[(slice(None), slice(None), *tap)] for tap in where.taps()]
    if target.size == 0:
        return []
    first, *others = views
    return [partial(np.copyto, target, first), *(partial(combine, target, view, out=target) for view in others)]


def _counts(where: Windows, *, include_padding: bool) -> Array:
    """Return the number of positions that count for each window."""
    sides: list[Array] = []
    for dim, padded in zip(where.dims, where.padded, strict=True):
        counted = np.zeros(padded)
        first, last = (0, padded) if include_padding else (dim.before, dim.before + dim.size)
        counted[first : min(last, dim.before + dim.size + dim.after)] = 1
        sides.append(counted)
    counted = math.prod(np.ix_(*sides), start=np.ones(()))
    return sum((counted[tap] for tap in where.taps()), start=np.zeros(where.output))
