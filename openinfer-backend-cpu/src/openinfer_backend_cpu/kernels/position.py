"""Positions of the largest and smallest elements along an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.dtypes import NUMERIC
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


@kernel("argmax_axis", dtypes=_NUMERIC)
def argmax_axis(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Index of the maximum; ties give the lowest index, or the highest with ``select_first=false``.

    A NaN in first place wins and any other is skipped; with ``nan="propagate"`` every NaN wins.
    """
    return _position(call, inputs[0], outputs[0], workspace, largest=True)


@kernel("argmin_axis", dtypes=_NUMERIC)
def argmin_axis(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Index of the minimum; ties and NaN as for `argmax_axis`."""
    return _position(call, inputs[0], outputs[0], workspace, largest=False)


def _position(call: OpCall, x: Array, out: Array, workspace: Workspace, *, largest: bool) -> BoundCall:
    axis = single_axis(call.settings["axis"], x.ndim)
    staging = Staging(workspace)
    source = np.moveaxis(staging.load(x, compute_dtype(x.dtype)), axis, -1)
    target = out.reshape(source.shape[:-1])
    propagate = call.settings.get("nan") == "propagate"
    first = call.settings.get("select_first", True) is not False

    def find() -> None:
        found = _first(source, largest) if first else _last(source, largest)
        if source.dtype.kind == "f":
            found = _with_nan(source, found, propagate=propagate, first=first)
        np.copyto(target, found, casting="unsafe")

    return staging.around(find)


def _first(source: Array, largest: bool) -> Array:
    numbers = _numbers(source, largest)
    return numbers.argmax(-1) if largest else numbers.argmin(-1)


def _last(source: Array, largest: bool) -> Array:
    best = (np.maximum if largest else np.minimum).reduce(_numbers(source, largest), axis=-1, keepdims=True)
    return source.shape[-1] - 1 - (source == best)[..., ::-1].argmax(-1)


def _numbers(source: Array, largest: bool) -> Array:
    """Return the elements with NaN replaced by a value that never wins a comparison."""
    if source.dtype.kind != "f":
        return source
    return np.where(np.isnan(source), source.dtype.type(-np.inf if largest else np.inf), source)


def _with_nan(source: Array, found: Array, *, propagate: bool, first: bool) -> Array:
    unordered = np.isnan(source)
    if not propagate:
        return np.where(unordered[..., 0], 0, found)
    position = unordered.argmax(-1) if first else source.shape[-1] - 1 - unordered[..., ::-1].argmax(-1)
    return np.where(unordered.any(-1), position, found)
