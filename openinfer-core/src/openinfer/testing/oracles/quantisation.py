"""Quantisation and products of quantised tensors, from the formulas of the specification."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from openinfer.dtypes import F32, F64, I32, U8
from openinfer.scalars import round_to
from openinfer.testing.accumulating import converted
from openinfer.testing.elements import ByElement, Elements
from openinfer.testing.oracles.convolution import convolved
from openinfer.testing.oracles.linear_algebra import inner_dims_differ, multiplied
from openinfer.testing.result_types import as_declared, fixed, of_input

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.dtypes import DType
    from openinfer.ir.resolved import SettingValue
    from openinfer.ir.types import TensorType
    from openinfer.ops.calls import OpCall
    from openinfer.testing.elements import Place
    from openinfer.testing.legality import Illegal
    from openinfer.testing.oracle import Exact, Oracle
    from openinfer.testing.result_types import ResultTypes

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


def _computed_in(call: OpCall) -> DType:
    """Return the float type in which reals are computed with."""
    kinds = [kind.dtype for kind in (*call.inputs, *call.outputs) if kind is not None]
    return F64 if F64 in kinds or (not kinds[0].is_float and kinds[0].bits == 32) else F32


def _quotient(a: Any, b: Any, dtype: DType) -> float:
    """Return a quotient rounded to f32 or f64.

    That of doubles has more than twice the bits of f32: rounding it again is rounding the exact one (Figueroa, "When is
    double rounding innocuous?", 1995).
    """
    with np.errstate(all="ignore"):
        return round_to(dtype, float(np.float64(a) / np.float64(b)))


def _dequantised(x: Exact, scale: Exact, zero_point: Exact | None, axis: int, block: int) -> Elements:
    def rule(place: Place) -> float:
        return (x[place] - _at(zero_point, place, axis, block)) * _at(scale, place, axis, block)

    return Elements(x.shape, np.float64, rule)


def _axis(settings: Settings, rank: int) -> int:
    return cast("int", settings["axis"]) % max(rank, 1)


def _quantize_linear(inputs: Sequence[Exact | None], call: OpCall) -> Elements:
    x, scale, zero_point = np.asarray(inputs[0]), np.asarray(inputs[1]), _given(inputs, 2)
    axis, block = _axis(call.settings, x.ndim), cast("int", call.settings["block_size"])
    out, wide = call.outputs[0].dtype, _computed_in(call)

    def rule(place: Place) -> Any:
        real = _quotient(x[place], _at(scale, place, axis, block), wide)
        return _code(real, _at(zero_point, place, axis, block), out)

    return Elements(x.shape, np.float64 if out.is_float else object, rule)


def _dequantize_linear(inputs: Sequence[Exact | None], call: OpCall) -> Elements:
    x, scale = np.asarray(inputs[0]), np.asarray(inputs[1])
    block, out = cast("int", call.settings["block_size"]), call.outputs[0].dtype
    exact = _dequantised(x, scale, _given(inputs, 2), _axis(call.settings, x.ndim), block)
    if _computed_in(call) is F32:
        return exact
    return replace(exact, finish=partial(converted, out=out))


def _reals(call: OpCall, declared: Sequence[TensorType]) -> Sequence[DType]:
    """Return the type that the program declares, or that of the scale."""
    return as_declared(call, declared) or of_input(1)(call, declared)


def _dynamic_quantize_linear(inputs: Sequence[Exact | None], call: OpCall) -> tuple[Exact, ...]:
    x = np.asarray(inputs[0])
    # NumPy's extremes of anything with a NaN are NaN; Python's depend on its position.
    low, high = np.min(x, initial=0.0), np.max(x, initial=0.0)
    # Scale and zero point are results themselves, so that what follows starts from their rounded values.
    scale = np.float64(np.float32(high - low) / np.float32(255)) if high != low else np.float64(1)
    zero_point = _code(float(np.float32(-low) / np.float32(scale)), 0, call.outputs[2].dtype)
    zeros = np.array(zero_point, dtype=object)
    codes = np.empty(x.shape, dtype=object)
    for place in np.ndindex(x.shape):
        codes[place] = _code(float(np.float32(x[place]) / np.float32(scale)), zero_point, call.outputs[0].dtype)
    return codes, np.array(scale), zeros


def _less(values: Exact, zero_point: Exact | None, *, column: bool = False) -> Exact:
    if zero_point is None:
        return values
    return np.asarray(values - (zero_point[:, None] if column and zero_point.ndim else zero_point))


def _matmul_integer(inputs: Sequence[Exact | None], call: OpCall) -> Elements:
    del call
    a, b = np.asarray(inputs[0]), np.asarray(inputs[1])
    return multiplied(_less(a, _given(inputs, 2), column=True), _less(b, _given(inputs, 3)))


def _conv_integer(inputs: Sequence[Exact | None], call: OpCall) -> Elements:
    w_zero = _given(inputs, 3)
    by_kernel = w_zero.reshape(-1, 1, 1, 1) if w_zero is not None and w_zero.ndim else w_zero
    x = _less(np.asarray(inputs[0]), _given(inputs, 2))
    return convolved(x, _less(np.asarray(inputs[1]), by_kernel), None, call.settings)


def _qlinear_matmul(inputs: Sequence[Exact | None], call: OpCall) -> Elements:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (np.asarray(given) for given in inputs)
    sums, out = multiplied(_less(a, a_zero, column=True), _less(b, b_zero)), call.outputs[0].dtype

    def rule(place: Place) -> Any:
        left = a_scale[place[-2]] if a_scale.ndim else a_scale[()]
        right = b_scale[place[-1]] if b_scale.ndim else b_scale[()]
        # Each step is a number of f32 by definition: ties depend on it.
        with np.errstate(all="ignore"):
            factor = np.float32(left) * np.float32(right) / np.float32(y_scale[()])
        total = np.float32((sums.rule(place) + (1 << 31)) % (1 << 32) - (1 << 31))
        return _code(float(total * factor), int(y_zero[()]), out)

    return Elements(sums.shape, object, rule)


def _qmatmul(inputs: Sequence[Exact | None], call: OpCall) -> Elements:
    x, w, scale = (np.asarray(given) for given in inputs[:3])
    group, turned = cast("int", call.settings["group_size"]), bool(call.settings["trans_w"])
    along_rows_of_w, bias = bool(group) != turned, _given(inputs, 4)
    real = _dequantised(w, scale, _given(inputs, 3), 0 if along_rows_of_w else 1, group)

    @cache
    def column(j: int) -> list[float]:
        return [real.rule((j, k) if turned else (k, j)) for k in range(x.shape[-1])]

    def rule(place: Place) -> Any:
        *row, j = place
        found = sum(a * b for a, b in zip(x[tuple(row)].tolist(), column(j), strict=True))
        return found + (0 if bias is None else bias[j])

    return Elements((*x.shape[:-1], w.shape[0 if turned else 1]), np.float64, rule)


ORACLES: dict[str, Oracle] = {
    "quantize_linear": ByElement(_quantize_linear),
    "dequantize_linear": ByElement(_dequantize_linear),
    "dynamic_quantize_linear": _dynamic_quantize_linear,
    "matmul_integer": ByElement(_matmul_integer),
    "conv_integer": ByElement(_conv_integer),
    "qlinear_matmul": ByElement(_qlinear_matmul),
    "qmatmul": ByElement(_qmatmul),
}

RESULT_TYPES: dict[str, ResultTypes] = {
    "quantize_linear": as_declared,
    "dequantize_linear": _reals,
    "dynamic_quantize_linear": fixed(U8, F32, U8),
    "matmul_integer": fixed(I32),
    "conv_integer": fixed(I32),
    "qlinear_matmul": of_input(7),
}

ILLEGAL: dict[str, Illegal] = {
    "qmatmul": inner_dims_differ,
}
