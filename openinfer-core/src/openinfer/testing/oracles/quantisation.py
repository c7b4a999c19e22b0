"""Quantisation and products of quantised tensors, from the formulas of the specification."""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any, cast

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.dtypes import DType
    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.calls import OpCall
    from openinfer.testing.oracle import Exact, Oracle

    Settings = Mapping[str, SettingValue]

_F8_LARGEST = 57344.0


def _given(inputs: Sequence[Exact | None], number: int) -> Exact | None:
    return inputs[number] if number < len(inputs) else None


def _at(values: Exact | None, place: tuple[int, ...], axis: int, block: int) -> Any:
    """Return the scale or zero point of an element; 0 where there is none."""
    if values is None:
        return 0
    if values.ndim == 0:
        return values[()]
    if block:
        return values[(*place[:axis], place[axis] // block, *place[axis + 1 :])]
    return values[place[axis]]


def _code(real: float, zero_point: int, dtype: DType) -> Any:
    """Return the nearest stored integer, ties to even."""
    if dtype.is_float:
        return real if math.isnan(real) else min(max(real, -_F8_LARGEST), _F8_LARGEST)
    if math.isnan(real):
        return 0
    low, high = dtype.minimum or 0, dtype.maximum or 0
    if math.isinf(real):
        return high if real > 0 else low
    return min(max(round(real) + zero_point, low), high)


def _quotient(a: Any, b: Any) -> float:
    with np.errstate(all="ignore"):
        return float(np.float64(a) / np.float64(b))


def _quantised(x: Exact, scale: Exact, zero_point: Exact | None, dtype: DType, axis: int, block: int) -> Exact:
    found = np.empty(x.shape, dtype=np.float64 if dtype.is_float else object)
    for place in np.ndindex(x.shape):
        real = _quotient(x[place], _at(scale, place, axis, block))
        found[place] = _code(real, _at(zero_point, place, axis, block), dtype)
    return found


def _dequantised(x: Exact, scale: Exact, zero_point: Exact | None, axis: int, block: int) -> Exact:
    found = np.empty(x.shape, dtype=np.float64)
    for place in np.ndindex(x.shape):
        found[place] = (x[place] - _at(zero_point, place, axis, block)) * _at(scale, place, axis, block)
    return found


def _axis(settings: Settings, rank: int) -> int:
    return cast("int", settings["axis"]) % max(rank, 1)


def _quantize_linear(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
    x, scale = np.asarray(inputs[0]), np.asarray(inputs[1])
    block = cast("int", call.settings["block_size"])
    return (_quantised(x, scale, _given(inputs, 2), call.outputs[0].dtype, _axis(call.settings, x.ndim), block),)


def _dequantize_linear(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
    x, scale = np.asarray(inputs[0]), np.asarray(inputs[1])
    block = cast("int", call.settings["block_size"])
    return (_dequantised(x, scale, _given(inputs, 2), _axis(call.settings, x.ndim), block),)


def _dynamic_quantize_linear(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
    x = np.asarray(inputs[0])
    low, high = min(0.0, *x.reshape(-1), 0.0), max(0.0, *x.reshape(-1), 0.0)
    # Scale and zero point are results themselves, so that what follows starts from their rounded values.
    scale = np.float64(np.float32(high - low or 1.0) / np.float32(255))
    zero_point = _code(float(np.float32(-low) / np.float32(scale)), 0, call.outputs[2].dtype)
    zeros = np.array(zero_point, dtype=object)
    codes = np.empty(x.shape, dtype=object)
    for place in np.ndindex(x.shape):
        codes[place] = _code(float(np.float32(x[place]) / np.float32(scale)), zero_point, call.outputs[0].dtype)
    return codes, np.array(scale), zeros


def _sums(a: Exact, b: Exact) -> Exact:
    """Return the matrix product of exact values."""
    return np.asarray(np.matmul(a, b))


def _less(values: Exact, zero_point: Exact | None, *, column: bool = False) -> Exact:
    if zero_point is None:
        return values
    return values - (zero_point[:, None] if column and zero_point.ndim else zero_point)


def _matmul_integer(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
    a, b = np.asarray(inputs[0]), np.asarray(inputs[1])
    found = _sums(_less(a, _given(inputs, 2), column=True), _less(b, _given(inputs, 3)))
    return (found.astype(object).reshape(call.outputs[0].shape),)


def _pair(value: SettingValue) -> tuple[int, int]:
    given = cast("tuple[int, ...]", value if isinstance(value, tuple) else (value,))
    return (given[0], given[-1])


def _begins(x: Exact, w: Exact, settings: Settings, extent: tuple[int, ...]) -> tuple[int, int]:
    """Return the padding before the first row and column."""
    padding = settings["padding"]
    if not isinstance(padding, str):
        given = [padding] if isinstance(padding, int) else list(cast("tuple[int, ...]", padding))
        return given[0], given[min(1, len(given) - 1)]
    if padding == "valid":
        return 0, 0
    begins: list[int] = []
    for dim in (0, 1):
        stride, dilation = _pair(settings["stride"])[dim], _pair(settings["dilation"])[dim]
        reach = (extent[dim] - 1) * stride + dilation * (w.shape[2 + dim] - 1) + 1
        total = max(reach - x.shape[2 + dim], 0)
        begins.append(total // 2 if padding == "same_upper" else total - total // 2)
    return begins[0], begins[1]


def _conv_integer(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
    w_zero = _given(inputs, 3)
    x = _less(np.asarray(inputs[0]), _given(inputs, 2))
    w = np.asarray(inputs[1])
    w = w - (w_zero.reshape(-1, 1, 1, 1) if w_zero is not None and w_zero.ndim else 0 if w_zero is None else w_zero)
    shape = call.outputs[0].shape
    stride, dilation = _pair(call.settings["stride"]), _pair(call.settings["dilation"])
    top, left = _begins(x, w, call.settings, shape[2:])
    each, depth = w.shape[0] // cast("int", call.settings["groups"]), w.shape[1]
    found = np.zeros(shape, dtype=object)
    for n, o, i, j in np.ndindex(shape):
        for c, u, v in product(range(depth), range(w.shape[2]), range(w.shape[3])):
            row, column = i * stride[0] + u * dilation[0] - top, j * stride[1] + v * dilation[1] - left
            if 0 <= row < x.shape[2] and 0 <= column < x.shape[3]:
                found[n, o, i, j] += x[n, o // each * depth + c, row, column] * w[o, c, u, v]
    return (found,)


def _qlinear_matmul(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (np.asarray(given) for given in inputs)
    sums = _sums(_less(a, a_zero, column=True), _less(b, b_zero)).astype(np.float64)
    real = sums * (a_scale[:, None] if a_scale.ndim else a_scale) * b_scale
    return (_quantised(real, y_scale, y_zero, call.outputs[0].dtype, 0, 0),)


def _qmatmul(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
    x, w, scale = (np.asarray(given) for given in inputs[:3])
    group, turned = cast("int", call.settings["group_size"]), bool(call.settings["trans_w"])
    along_rows_of_w = bool(group) != turned
    real = _dequantised(w, scale, _given(inputs, 3), 0 if along_rows_of_w else 1, group)
    found, bias = _sums(x, real.T if turned else real), _given(inputs, 4)
    return (found if bias is None else found + bias,)


ORACLES: dict[str, Oracle] = {
    "quantize_linear": _quantize_linear,
    "dequantize_linear": _dequantize_linear,
    "dynamic_quantize_linear": _dynamic_quantize_linear,
    "matmul_integer": _matmul_integer,
    "conv_integer": _conv_integer,
    "qlinear_matmul": _qlinear_matmul,
    "qmatmul": _qmatmul,
}
