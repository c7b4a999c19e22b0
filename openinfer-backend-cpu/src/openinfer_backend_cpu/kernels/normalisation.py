"""Rows normalised in few passes over memory; the composite operators say the same in many."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from openinfer.dtypes import FLOAT
from openinfer.ops.catalog.normalisation import row_axes
from openinfer_backend_cpu.axes import single_axis
from openinfer_backend_cpu.registration import kernel
from openinfer_backend_cpu.staging import Staging, compute_dtype, widest_float

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from openinfer.ops.calls import OpCall
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]
    BoundCall: TypeAlias = Callable[[], object]

_FLOAT = frozenset(dtype.name for dtype in FLOAT)


@kernel("softmax", dtypes=_FLOAT)
def softmax(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """e^(x - m) over its sum along the axis, m the maximum."""
    x, y, part, staging = _along_axis(call, inputs[0], outputs[0], workspace)
    if not x.size:
        return staging.around()
    return staging.around(
        partial(np.maximum.reduce, x, axis=-1, keepdims=True, out=part),
        partial(np.subtract, x, part, out=y),
        partial(np.exp, y, out=y),
        partial(np.add.reduce, y, axis=-1, keepdims=True, out=part),
        partial(np.divide, y, part, out=y),
    )


@kernel("log_softmax", dtypes=_FLOAT)
def log_softmax(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """x - m - log of the sum of e^(x - m) along the axis, m the maximum."""
    x, y, part, staging = _along_axis(call, inputs[0], outputs[0], workspace)
    if not x.size:
        return staging.around()
    powers = workspace.take(x.shape, x.dtype)
    return staging.around(
        partial(np.maximum.reduce, x, axis=-1, keepdims=True, out=part),
        partial(np.subtract, x, part, out=y),
        partial(np.exp, y, out=powers),
        partial(np.add.reduce, powers, axis=-1, keepdims=True, out=part),
        partial(np.log, part, out=part),
        partial(np.subtract, y, part, out=y),
    )


def _along_axis(call: OpCall, x: Array, out: Array, workspace: Workspace) -> tuple[Array, Array, Array, Staging]:
    """Return input and output with the axis last, one element for each slice, and the staging of both."""
    staging = Staging(workspace)
    dtype = compute_dtype(x.dtype)
    axis = single_axis(call.settings["axis"], x.ndim)
    source = np.moveaxis(staging.load(x, dtype), axis, -1)
    target = np.moveaxis(staging.store(out, dtype), axis, -1)
    return source, target, workspace.take((*source.shape[:-1], 1), dtype), staging


@kernel("layer_norm", dtypes=_FLOAT)
def layer_norm(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Rows less their mean, over their deviation, times scale plus bias."""
    rows = _Rows(call, inputs, outputs[0], workspace)
    if not rows.source.size:
        return rows.staging.around()
    return rows.staging.around(
        partial(np.add.reduce, rows.source, axis=1, keepdims=True, out=rows.part),
        partial(np.multiply, rows.part, rows.share, out=rows.part),
        partial(np.subtract, rows.source, rows.part, out=rows.target),
        *rows.scaled(rows.target),
    )


@kernel("rms_norm", dtypes=_FLOAT)
def rms_norm(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Rows over the root of the mean of their squares, times scale."""
    rows = _Rows(call, inputs, outputs[0], workspace)
    if not rows.source.size:
        return rows.staging.around()
    return rows.staging.around(*rows.scaled(rows.source))


class _Rows:
    """The rows of a call as matrices of the type that it computes in."""

    def __init__(self, call: OpCall, inputs: Sequence[Array | None], out: Array, workspace: Workspace) -> None:
        x = cast("Array", inputs[0])
        dtype = widest_float(inputs)
        axes = row_axes(x.ndim, call.settings)
        self._row = tuple(x.shape[axis] for axis in axes)
        length = math.prod(self._row)
        shape = (math.prod(x.shape[: axes[0]]), length)
        self.staging = Staging(workspace)
        self.source = self.staging.load(x, dtype).reshape(shape)
        self.target = self.staging.store(out, dtype).reshape(shape)
        self.part = workspace.take((shape[0], 1), dtype)
        self.share = dtype.type(1 / max(length, 1))
        self._eps = dtype.type(cast("float", call.settings["eps"]))
        self._factors = [self._part_of_row(given, dtype) for given in inputs[1:]]

    def _part_of_row(self, given: Array | None, dtype: np.dtype[Any]) -> Array | None:
        """Return scale or bias, with the dims of a row before its own; the copy of a stretched one is its own."""
        if given is None:
            return None
        loaded = self.staging.load(given, dtype)
        return loaded.reshape((*(1 for _ in range(len(self._row) - given.ndim)), *given.shape))

    def scaled(self, centred: Array) -> list[BoundCall]:
        """Return the calls that bring ``centred`` to size one, scale it and add the bias."""
        whole = self.target.reshape((self.target.shape[0], *self._row))
        finish = [
            partial(function, whole, factor, out=whole)
            for function, factor in zip((np.multiply, np.add), self._factors, strict=False)
            if factor is not None
        ]
        return [
            partial(np.einsum, "ij,ij->i", centred, centred, out=self.part[:, 0]),
            partial(np.multiply, self.part, self.share, out=self.part),
            partial(np.add, self.part, self._eps, out=self.part),
            partial(np.sqrt, self.part, out=self.part),
            partial(np.reciprocal, self.part, out=self.part),
            partial(np.multiply, centred, self.part, out=self.target),
            *finish,
        ]
