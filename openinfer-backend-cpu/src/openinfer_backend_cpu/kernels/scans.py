"""Scans along an axis, and elements in order."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from openinfer.dtypes import FLOAT, NUMERIC, SINT, UINT
from openinfer_backend_cpu.axes import single_axis
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
_SUMMED = frozenset(dtype.name for dtype in (*FLOAT, *SINT, *UINT))

FEW = 8
"""An order is searched for the first ones, not sorted, where they are at most one in this many."""


@kernel("cumsum", dtypes=_SUMMED)
def cumsum(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Running sums: floats in their compute type, integers wrapping."""
    dtype = compute_dtype(inputs[0].dtype)
    axis = single_axis(call.settings["axis"], inputs[0].ndim)
    staging = Staging(workspace)
    x, y = (np.moveaxis(a, axis, -1) for a in (staging.load(inputs[0], dtype), staging.store(outputs[0], dtype)))
    if call.settings.get("reverse"):
        x, y = x[..., ::-1], y[..., ::-1]
    if not x.size:
        return staging.around()
    if not call.settings.get("exclusive"):
        return staging.around(partial(np.add.accumulate, x, axis=-1, dtype=dtype, out=y))
    return staging.around(
        partial(y[..., :1].fill, 0),
        partial(np.add.accumulate, x[..., :-1], axis=-1, dtype=dtype, out=y[..., 1:]),
    )


@kernel("topk", dtypes=_NUMERIC)
def topk(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """The k first elements along an axis and their indices; ties by lower index, NaN is greatest."""
    axis = single_axis(call.settings["axis"], inputs[0].ndim)
    k, largest = cast("int", call.settings["k"]), bool(call.settings.get("largest"))
    x, values, indices = (np.moveaxis(array, axis, -1) for array in (inputs[0], *outputs))
    del workspace

    def run() -> None:
        if not values.size:
            return
        keys = sort_keys(x, descending=largest)
        places = _first(keys, k) if k * FEW <= x.shape[-1] else np.argsort(keys, axis=-1, stable=True)[..., :k]
        np.copyto(indices, places)
        np.copyto(values, np.take_along_axis(x, places, axis=-1))

    return run


@kernel("argsort", dtypes=_NUMERIC)
def argsort(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Indices of the elements in order along an axis; stable, NaN is greatest."""
    axis, descending = single_axis(call.settings["axis"], inputs[0].ndim), bool(call.settings.get("descending"))
    x, indices = (np.moveaxis(array, axis, -1) for array in (inputs[0], outputs[0]))
    del workspace
    return lambda: np.copyto(indices, np.argsort(sort_keys(x, descending=descending), axis=-1, stable=True))


def sort_keys(x: Array, *, descending: bool) -> Array:
    """Return integers in the order of the elements: equal where these are equal, a NaN above all."""
    if x.dtype.kind in "iu":
        return ~x if descending else x
    wide = x.astype(compute_dtype(x.dtype)) + 0.0  # -0 becomes 0
    codes = wide.view(f"i{wide.dtype.itemsize}")
    most = np.iinfo(codes.dtype).max
    keys: Array = np.where(np.isnan(wide), most, np.where(codes < 0, codes ^ most, codes))
    return ~keys if descending else keys


def _first(keys: Array, k: int) -> Array:
    """Return the places of the k least keys of each row, in order: those below the k-th least, and as many of its like
    as there is room for."""
    limit = np.partition(keys, k - 1, axis=-1)[..., k - 1 : k]
    below, equal = keys < limit, keys == limit
    room = k - np.count_nonzero(below, axis=-1, keepdims=True)
    chosen = below | (equal & (np.cumsum(equal, axis=-1) <= room))
    places = np.nonzero(chosen)[-1].reshape(*keys.shape[:-1], k)
    order = np.argsort(np.take_along_axis(keys, places, axis=-1), axis=-1, stable=True)
    return np.take_along_axis(places, order, axis=-1)
