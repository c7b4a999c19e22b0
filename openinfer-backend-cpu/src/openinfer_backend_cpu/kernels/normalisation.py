"""Rows normalised in few passes over memory; the composite operators say the same in many."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from openinfer.dtypes import FLOAT
from openinfer.ops.catalog.normalisation import row_axes
from openinfer_backend_cpu.axes import single_axis
from openinfer_backend_cpu.matrix_products import bind_product
from openinfer_backend_cpu.registration import kernel
from openinfer_backend_cpu.staging import Staging, compute_dtype, widest_float

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.ops.calls import OpCall
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]

_FLOAT = frozenset(dtype.name for dtype in FLOAT)

BLOCK = 1 << 22
"""Bytes of rows that are normalised together, so that they stay in the cache between passes."""


@kernel("softmax", dtypes=_FLOAT)
def softmax(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """e^(x - m) over its sum along the axis, m the maximum."""
    staging, pieces = _along_axis(call, inputs[0], outputs[0], workspace)
    return staging.around(*(step for piece in pieces for step in _softmax(*piece)))


def _softmax(x: Array, y: Array, part: Array) -> Iterator[BoundCall]:
    yield partial(np.maximum.reduce, x, axis=-1, keepdims=True, out=part)
    yield partial(np.subtract, x, part, out=y)
    yield partial(np.exp, y, out=y)
    yield partial(np.add.reduce, y, axis=-1, keepdims=True, out=part)
    yield partial(np.reciprocal, part, out=part)
    yield partial(np.multiply, y, part, out=y)


@kernel("log_softmax", dtypes=_FLOAT)
def log_softmax(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """x - m - log of the sum of e^(x - m) along the axis, m the maximum."""
    staging, pieces = _along_axis(call, inputs[0], outputs[0], workspace)
    powers = workspace.take((max((x.size for x, _, _ in pieces), default=0),), compute_dtype(inputs[0].dtype))
    return staging.around(
        *(step for x, y, part in pieces for step in _log_softmax(x, y, part, powers[: x.size].reshape(x.shape)))
    )


def _log_softmax(x: Array, y: Array, part: Array, powers: Array) -> Iterator[BoundCall]:
    yield partial(np.maximum.reduce, x, axis=-1, keepdims=True, out=part)
    yield partial(np.subtract, x, part, out=y)
    yield partial(np.exp, y, out=powers)
    yield partial(np.add.reduce, powers, axis=-1, keepdims=True, out=part)
    yield partial(np.log, part, out=part)
    yield partial(np.subtract, y, part, out=y)


def _along_axis(
    call: OpCall, x: Array, out: Array, workspace: Workspace
) -> tuple[Staging, list[tuple[Array, Array, Array]]]:
    """Return the staging, and pieces of input and output with the axis last and one element for each slice."""
    staging = Staging(workspace)
    dtype = compute_dtype(x.dtype)
    axis = single_axis(call.settings["axis"], x.ndim)
    source = np.moveaxis(staging.load(x, dtype), axis, -1)
    target = np.moveaxis(staging.store(out, dtype), axis, -1)
    part = workspace.take((*source.shape[:-1], 1), dtype)
    if not source.size:
        return staging, []
    if axis == x.ndim - 1:
        rows = (math.prod(x.shape[:-1]), x.shape[-1])
        return staging, list(_blocks(source.reshape(rows), target.reshape(rows), part.reshape(-1, 1)))
    return staging, [(source, target, part)]


def _blocks(x: Array, y: Array, part: Array) -> Iterator[tuple[Array, Array, Array]]:
    """Yield rows together that stay in the cache between passes."""
    count = max(1, BLOCK // max(x.shape[1] * x.itemsize, 1))
    for first in range(0, len(x), count):
        rows = slice(first, first + count)
        yield x[rows], y[rows], part[rows]


@kernel("layer_norm", dtypes=_FLOAT)
def layer_norm(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Rows less their mean, over their deviation, times scale plus bias."""
    rows = _Rows(call, inputs, outputs[0], workspace)
    return rows.staging.around(*(step for piece in rows.pieces() for step in _layer_norm(rows, *piece)))


def _layer_norm(rows: _Rows, x: Array, y: Array, part: Array) -> Iterator[BoundCall]:
    yield from rows.centred(x, y, part)
    yield from rows.scaled(y, y, part)


@kernel("rms_norm", dtypes=_FLOAT)
def rms_norm(call: OpCall, inputs: Sequence[Array], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """Rows over the root of the mean of their squares, times scale."""
    rows = _Rows(call, inputs, outputs[0], workspace)
    return rows.staging.around(*(step for piece in rows.pieces() for step in rows.scaled(*piece)))


def _squares(x: Array, part: Array) -> BoundCall:
    """Return the call that sums the squares of each row."""
    return bind_product(x[:, None, :], x[:, :, None], part[:, :, None])


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
        self._source = self.staging.load(x, dtype).reshape(shape)
        self._target = self.staging.store(out, dtype).reshape(shape)
        self._part = workspace.take((shape[0], 1), dtype)
        self._share = dtype.type(1 / max(length, 1))
        self._eps = dtype.type(cast("float", call.settings["eps"]))
        self._factors = [self._factor(given, dtype) for given in inputs[1:]]

    def _factor(self, given: Array | None, dtype: np.dtype[Any]) -> Array | None:
        """Return scale or bias, with the dims of a row before its own; the copy of a stretched one is its own."""
        if given is None:
            return None
        loaded = self.staging.load(given, dtype)
        return loaded.reshape((*(1 for _ in range(len(self._row) - given.ndim)), *given.shape))

    def pieces(self) -> Iterator[tuple[Array, Array, Array]]:
        """Yield rows of input and output, and an element for each row."""
        if self._source.size:
            yield from _blocks(self._source, self._target, self._part)

    def centred(self, x: Array, y: Array, part: Array) -> Iterator[BoundCall]:
        """Yield the calls that write rows less their mean."""
        yield partial(np.add.reduce, x, axis=1, keepdims=True, out=part)
        yield partial(np.multiply, part, self._share, out=part)
        yield partial(np.subtract, x, part, out=y)

    def scaled(self, x: Array, y: Array, part: Array) -> Iterator[BoundCall]:
        """Yield the calls that bring rows to size one, scale them and add the bias."""
        yield _squares(x, part)
        yield partial(np.multiply, part, self._share, out=part)
        yield partial(np.add, part, self._eps, out=part)
        yield partial(np.sqrt, part, out=part)
        yield partial(np.reciprocal, part, out=part)
        yield partial(np.multiply, x, part, out=y)
        whole = y.reshape((len(y), *self._row))
        for function, factor in zip((np.multiply, np.add), self._factors, strict=False):
            if factor is not None:
                yield partial(function, whole, factor, out=whole)
