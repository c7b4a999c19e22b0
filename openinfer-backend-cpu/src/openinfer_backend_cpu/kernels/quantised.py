"""Products of real rows with matrices of small integers, which stay packed: one block at a time is dequantised."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer_backend_cpu.matrix_products import alone, bind_part, multiply
from openinfer_backend_cpu.packed_matrix import PackedMatrix
from openinfer_backend_cpu.registration import kernel, stored
from openinfer_backend_cpu.staging import Staging, widest_float

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from openinfer.bound_calls import BoundCall
    from openinfer.ops.calls import OpCall
    from openinfer_backend_cpu.workspace import Workspace

    Array: TypeAlias = npt.NDArray[Any]

BLOCK = 1 << 19
"""Bytes of weights that are real at a time for few rows: they stay in the second-level cache."""

CHUNK = 1 << 22
"""The same for many rows, where the product takes longer than anything else."""

FEW_ROWS = 8
"""Rows up to which scaling sums is cheaper than scaling weights."""

LEAST_GROUP = 16
"""Elements that share a scale from which scaling sums is cheaper than scaling weights."""


@kernel("qmatmul")
@stored(1)
def qmatmul(call: OpCall, inputs: Sequence[Array | None], outputs: Sequence[Array], workspace: Workspace) -> BoundCall:
    """x times the dequantised weights, plus bias; in f64 if an input is f64, else in f32."""
    given = [inputs[number] if number < len(inputs) else None for number in range(5)]
    x, w, scale, zero_point, bias = given
    kind = call.inputs[1]
    if x is None or w is None or scale is None or kind is None:
        raise ValueError("qmatmul needs x, w and scale")
    dtype = widest_float([x, scale, bias])
    staging = Staging(workspace)
    product = _Product(
        rows=_matrix(staging.load(x, dtype)),
        weights=PackedMatrix(w, kind),
        scale=_table(staging.load(scale, dtype), call),
        zero_point=None if zero_point is None else _table(staging.load(zero_point, dtype), call),
        target=_matrix(staging.store(outputs[0], dtype)),
        transposed=bool(call.settings.get("trans_w")),
        workspace=workspace,
    )
    if not product.target.size:
        return staging.around()
    if not x.shape[-1]:
        calls: list[BoundCall] = [partial(product.target.fill, 0)]
    else:
        calls = [product.call()]
    if bias is not None:
        calls.append(partial(np.add, product.target, staging.load(bias, dtype), out=product.target))
    return staging.around(*calls)


def _matrix(array: Array) -> Array:
    return array.reshape(math.prod(array.shape[:-1]), array.shape[-1])


def _table(values: Array, call: OpCall) -> Array:
    """Return scales or zero points as a table in the layout of w: one row or column for each group."""
    if call.settings.get("group_size"):
        return values
    columns = values.reshape(-1)
    return columns[:, None] if call.settings.get("trans_w") else columns[None, :]


class _Product:
    """A product that is bound to its arrays; scale and zero_point are tables in the layout of the weights."""

    def __init__(
        self,
        *,
        rows: Array,
        weights: PackedMatrix,
        scale: Array,
        zero_point: Array | None,
        target: Array,
        transposed: bool,
        workspace: Workspace,
    ) -> None:
        self._x = rows
        self._w = weights
        self._scale = scale
        self._zero_point = zero_point
        self.target = target
        self._transposed = transposed
        # Weights are multiples of the unit while they are computed with.
        self._factor = rows.dtype.type(1 / weights.unit)
        self._workspace = workspace

    def call(self) -> BoundCall:
        if self._transposed:
            return self._by_columns()
        depth = self._x.shape[1]
        group = depth // self._scale.shape[0]
        if not self._w.whole_rows or len(self._x) > FEW_ROWS or group < min(LEAST_GROUP, depth):
            return self._by_chunks(group)
        sums, weights = self._by_groups(group), self._by_chunks(group)
        scale = self._scale

        def run() -> None:
            # An infinite scale makes a weight of 0 NaN, which no sum of weights shows.
            (sums if np.isfinite(scale).all() else weights)()

        return run

    def _by_groups(self, group: int) -> BoundCall:
        """Return the product as sums over groups, each scaled: w is not interleaved and not scaled."""
        x, w, lanes, target, dtype = self._x, self._w, self._w.lanes, self.target, self._x.dtype
        width = w.columns // lanes
        tall = max(1, min(group, BLOCK // (width * dtype.itemsize)))
        take = self._workspace.take
        small, block = take((tall, width), np.dtype(np.uint8)), take((tall, width), dtype)
        part, total = take((len(x), width), dtype), take((lanes, len(x), width), dtype)
        scaled = take(x.shape, dtype)
        scale = _spread(self._scale, w.columns)
        zero_point = None if self._zero_point is None else _spread(self._zero_point, w.columns)

        def run() -> None:
            np.multiply(x, self._factor, out=scaled)
            total.fill(0)
            for first, last, number in _spans(len(w), group, tall):
                for lane in range(lanes):
                    columns = slice(lane, None, lanes)
                    count = last - first
                    w.lane(first, last, lane, small[:count], block[:count])
                    if zero_point is not None:
                        np.subtract(block[:count], zero_point[number, columns] * w.unit, out=block[:count])
                    bind_part(scaled[:, first:last], block[:count], part)()
                    np.multiply(part, scale[number, columns], out=part)
                    np.add(total[lane], part, out=total[lane])
            for lane in range(lanes):
                target[:, lane::lanes] = total[lane]

        # Products with a few rows take no longer than it takes to think about how to cut them.
        return alone(run)

    def _by_chunks(self, group: int) -> BoundCall:
        """Return the product as a sum over chunks of rows of w, each of which is dequantised as a whole."""
        x, w, target, dtype = self._x, self._w, self.target, self._x.dtype
        tall = max(1, min(len(w), CHUNK // (w.columns * dtype.itemsize)))
        block, part = self._workspace.take((tall, w.columns), dtype), self._workspace.take(target.shape, dtype)
        spans = list(_spans(len(w), group, tall) if group > tall else _whole_spans(len(w), group, tall))

        def run() -> None:
            target.fill(0)
            for first, last, number in spans:
                real = block[: last - first]
                w.elements(first, last, real)
                groups = slice(number, number + max(1, (last - first) // group))
                self._scaled(real.reshape(groups.stop - number, -1, w.columns), (groups, None))
                multiply(x[:, first:last], real, part)
                np.add(target, part, out=target)

        return run

    def _by_columns(self) -> BoundCall:
        """Return the product with weights [N, K], some columns of it at a time."""
        x, w, target, dtype = self._x, self._w, self.target, self._x.dtype
        tall = max(1, min(len(w), (BLOCK if len(x) <= FEW_ROWS else CHUNK) // (w.columns * dtype.itemsize)))
        block = self._workspace.take((tall, w.columns), dtype)
        groups = self._scale.shape[1]

        def run() -> None:
            for first in range(0, len(w), tall):
                last = min(first + tall, len(w))
                real = block[: last - first]
                w.elements(first, last, real)
                own = slice(first, last) if len(self._scale) > 1 else slice(None)
                self._scaled(real.reshape(last - first, groups, -1), (own, slice(None), None))
                multiply(x, real.T, target[:, first:last])

        return run

    def _scaled(self, block: Array, place: tuple[slice | None, ...]) -> None:
        """Make multiples of the unit real, with scales and zero points at a place of their tables."""
        if self._zero_point is not None:
            np.subtract(block, self._zero_point[place] * self._w.unit, out=block)
        np.multiply(block, self._scale[place] * self._factor, out=block)


def _spread(table: Array, columns: int) -> Array:
    """Return a table of one value or row for each group with a value for every column."""
    return np.broadcast_to(table, (len(table), columns))


def _spans(rows: int, group: int, tall: int) -> Iterator[tuple[int, int, int]]:
    """Yield first and last row and the group of pieces of at most ``tall`` rows within one group."""
    for number in range(rows // group):
        for first in range(number * group, (number + 1) * group, tall):
            yield first, min(first + tall, (number + 1) * group), number


def _whole_spans(rows: int, group: int, tall: int) -> Iterator[tuple[int, int, int]]:
    """Yield first and last row and the first group of pieces of whole groups."""
    tall -= tall % group
    for first in range(0, rows, tall):
        yield first, min(first + tall, rows), first // group
