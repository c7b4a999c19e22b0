"""Softmax and normalised rows and channels, row by row with exact sums."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from openinfer.testing.summing import total

if TYPE_CHECKING:
    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.calls import OpCall
    from openinfer.testing.oracle import Exact, Oracle

    Settings = Mapping[str, SettingValue]
    Inputs = Sequence[Exact | None]


def _by_row(function: Callable[[list[float]], list[float]]) -> Oracle:
    """Return the oracle of a function of rows along the setting ``axis``."""

    def oracle(inputs: Inputs, call: OpCall) -> tuple[Exact, ...]:
        x = _given(inputs)
        axis = cast("int", call.settings["axis"]) % x.ndim
        y = np.empty(x.shape)
        kept = [range(1) if dim == axis else range(extent) for dim, extent in enumerate(x.shape)]
        for place in itertools.product(*kept):
            row = tuple(slice(None) if dim == axis else index for dim, index in enumerate(place))
            y[row] = function(x[row].tolist())
        return (y,)

    return oracle


def _given(inputs: Inputs, number: int = 0) -> Any:
    found = inputs[number]
    if found is None:
        raise ValueError(f"input {number} is missing")
    return found


def _softmax(row: list[float]) -> list[float]:
    powers = _powers(row)
    whole = total(powers)
    return [_over(power, whole) for power in powers]


def _powers(row: list[float]) -> list[float]:
    top = float(np.max(np.array(row))) if row else 0.0
    return [math.nan if math.isnan(value - top) else math.exp(value - top) for value in row]


def _over(a: float, b: float) -> float:
    return float(np.float64(a) / np.float64(b))


def _log_softmax(row: list[float]) -> list[float]:
    top = float(np.max(np.array(row))) if row else 0.0
    whole = total(_powers(row))
    return [value - top - (math.nan if math.isnan(whole) else math.log(whole)) for value in row]


def _l2_norm(row: list[float]) -> list[float]:
    length = math.sqrt(total([value * value for value in row]))
    return [_over(value, length) if length != 0 else 0.0 for value in row]


def _standardised(row: list[float], eps: float, *, centre: bool) -> list[float]:
    mean = total(row) / len(row) if centre and row else 0.0
    variance = total([(value - mean) ** 2 for value in row]) / max(len(row), 1)
    return [_over(value - mean, math.sqrt(variance + eps)) for value in row]


def _rows(*, centre: bool) -> Oracle:
    def oracle(inputs: Inputs, call: OpCall) -> tuple[Exact, ...]:
        x, eps = _given(inputs), cast("float", call.settings["eps"])
        axis = cast("int", call.settings["axis"]) % x.ndim
        y = np.empty(x.shape)
        for place in itertools.product(*map(range, x.shape[:axis])):
            row = _standardised(x[place].ravel().tolist(), eps, centre=centre)
            y[place] = np.reshape(row, x.shape[axis:])
        if len(inputs) > 1 and inputs[1] is not None:
            y = y * inputs[1]
        if len(inputs) > 2 and inputs[2] is not None:
            y = y + inputs[2]
        return (y,)

    return oracle


def batch_norm(inputs: Inputs, call: OpCall) -> tuple[Exact, ...]:
    x, scale, bias, mean, variance = (_given(inputs, number) for number in range(5))
    eps, y = cast("float", call.settings["eps"]), np.empty(x.shape)
    for c in range(x.shape[1]):
        y[:, c] = (x[:, c] - mean[c]) / np.sqrt(variance[c] + eps) * scale[c] + bias[c]
    return (y,)


def _in_groups(inputs: Inputs, settings: Settings, groups: int) -> tuple[Exact, ...]:
    x, scale, bias = (_given(inputs, number) for number in range(3))
    eps, y = cast("float", settings["eps"]), np.empty(x.shape)
    size = x.shape[1] // max(groups, 1)
    for n, group in itertools.product(range(x.shape[0]), range(groups)):
        channels = slice(group * size, (group + 1) * size)
        rows = _standardised(x[n, channels].ravel().tolist(), eps, centre=True)
        y[n, channels] = np.reshape(rows, x[n, channels].shape)
    for c in range(x.shape[1]):
        y[:, c] = y[:, c] * scale[c] + bias[c]
    return (y,)


def group_norm(inputs: Inputs, call: OpCall) -> tuple[Exact, ...]:
    return _in_groups(inputs, call.settings, cast("int", call.settings["groups"]))


def instance_norm(inputs: Inputs, call: OpCall) -> tuple[Exact, ...]:
    return _in_groups(inputs, call.settings, _given(inputs).shape[1])


ORACLES: dict[str, Oracle] = {
    "softmax": _by_row(_softmax),
    "log_softmax": _by_row(_log_softmax),
    "l2_norm": _by_row(_l2_norm),
    "layer_norm": _rows(centre=True),
    "rms_norm": _rows(centre=False),
    "batch_norm": batch_norm,
    "group_norm": group_norm,
    "instance_norm": instance_norm,
}
