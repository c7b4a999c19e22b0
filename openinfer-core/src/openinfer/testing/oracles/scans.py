"""Running sums, order, and sums of powers, slice by slice."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from openinfer.dtypes import I64
from openinfer.testing.oracles.reductions import axes_of, folded
from openinfer.testing.result_types import fixed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.dtypes import DType
    from openinfer.ir.types import TensorType
    from openinfer.ops.calls import OpCall
    from openinfer.testing.oracle import Exact, Oracle
    from openinfer.testing.result_types import ResultTypes

    Inputs = Sequence[Exact | None]


def _given(inputs: Inputs) -> Any:
    if inputs[0] is None:
        raise ValueError("the input is missing")
    return inputs[0]


def _slices(shape: tuple[int, ...], axis: int) -> Iterator[tuple[Any, ...]]:
    """Yield the index of every slice along an axis."""
    for place in itertools.product(*(range(1 if dim == axis else extent) for dim, extent in enumerate(shape))):
        yield tuple(slice(None) if dim == axis else index for dim, index in enumerate(place))


def cumsum(inputs: Inputs, call: OpCall) -> tuple[Exact, ...]:
    x = _given(inputs)
    y = np.empty(x.shape, x.dtype)
    for where in _slices(x.shape, cast("int", call.settings["axis"]) % x.ndim):
        row = x[where].tolist()
        row = row[::-1] if call.settings["reverse"] else row
        zero = 0 if x.dtype == object else 0.0
        sums = [*itertools.accumulate(row, initial=zero)]
        sums = sums[:-1] if call.settings["exclusive"] else sums[1:]
        y[where] = sums[::-1] if call.settings["reverse"] else sums
    return (y,)


def _before(value: Any, index: int, *, descending: bool) -> tuple[Any, ...]:
    """Return what elements are sorted by: NaN is greatest, and of equal ones the first comes first."""
    undefined = isinstance(value, float) and math.isnan(value)
    number = 0 if undefined else value
    return (not undefined, -number, index) if descending else (undefined, number, index)


def _order(row: list[Any], *, descending: bool) -> list[int]:
    return sorted(range(len(row)), key=lambda index: _before(row[index], index, descending=descending))


def topk(inputs: Inputs, call: OpCall) -> tuple[Exact, ...]:
    x, k = _given(inputs), cast("int", call.settings["k"])
    axis = cast("int", call.settings["axis"]) % x.ndim
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    values, indices = np.empty(shape, x.dtype), np.empty(shape, object)
    for where in _slices(x.shape, axis):
        row = x[where].tolist()
        order = _order(row, descending=bool(call.settings["largest"]))[:k]
        values[where], indices[where] = [row[place] for place in order], order
    return values, indices


def _values_and_places(call: OpCall, declared: Sequence[TensorType]) -> Sequence[DType]:
    del declared
    return [x.dtype for x in call.inputs if x is not None] + [I64]


def argsort(inputs: Inputs, call: OpCall) -> tuple[Exact, ...]:
    x = _given(inputs)
    indices = np.empty(x.shape, object)
    for where in _slices(x.shape, cast("int", call.settings["axis"]) % x.ndim):
        indices[where] = _order(x[where].tolist(), descending=bool(call.settings["descending"]))
    return (indices,)


def logsumexp_axis(inputs: Inputs, call: OpCall) -> tuple[Exact, ...]:
    x = _given(inputs)
    return (folded(x, axes_of(call.settings, x.ndim), _log_sum, keepdims=bool(call.settings["keepdims"])),)


def _log_sum(row: list[float]) -> float:
    top = max((value for value in row if not math.isnan(value)), default=-math.inf)
    if any(map(math.isnan, row)):
        return math.nan
    if math.isinf(top):
        return top
    return top + math.log(math.fsum(math.exp(value - top) for value in row))


ORACLES: dict[str, Oracle] = {
    "cumsum": cumsum,
    "topk": topk,
    "argsort": argsort,
    "logsumexp_axis": logsumexp_axis,
}

RESULT_TYPES: dict[str, ResultTypes] = {
    "topk": _values_and_places,
    "argsort": fixed(I64),
}
