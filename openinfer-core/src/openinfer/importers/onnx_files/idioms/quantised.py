"""Products and convolutions of dequantised numbers: they stay quantised."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from openinfer.dtypes import F32, I32
from openinfer.importers.onnx_files.rewriting import Calls, ends_with
from openinfer.importers.onnx_files.sizes import is_number
from openinfer.importers.onnx_files.values import Call, Value, known

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.values import Setting

_WEIGHTS = ("i2", "i4", "i8", "u2", "u4", "u8", "t1", "t2")
_BYTES = ("i8", "u8")


@ends_with("matmul", "linear")
def _product(calls: Calls, call: Call) -> bool:
    """x by dequantised weights: by integers where x is dequantised too, else by weights that are dequantised inside."""
    x, w = call.inputs[0], call.inputs[1]
    weights = calls.writer(w, "dequantize_linear")
    if x is None or w is None or w.rank != 2 or weights is None or call.settings.get("trans_a"):
        return False
    integers, scale, zero = _parts(weights)
    if integers is None or scale is None or integers.dtype.name not in _WEIGHTS or not integers.is_known:
        return False
    is_transposed = bool(call.settings.get("trans_b") or call.settings.get("trans_w"))
    size = weights.settings.get("block_size", 0)
    axis = weights.settings.get("axis", 1)
    if not isinstance(size, int) or not isinstance(axis, int) or w.dtype is not x.dtype:
        return False
    columns, along = (0, 1) if is_transposed else (1, 0)
    bias = call.inputs[2] if len(call.inputs) > 2 else None
    length = w.dims[along]
    if size and (axis % 2 != along or not is_number(length) or length % size):
        return False
    if not size and scale.rank and axis % 2 != columns:
        return False
    if not size and not is_transposed and _by_integers(calls, call, x, (integers, scale, zero), bias):
        return True
    settings: dict[str, Setting] = {}
    if size:
        settings["group_size"] = size
    if is_transposed:
        settings["trans_w"] = True
    return calls.replace(call, "qmatmul", [x, integers, scale, zero, bias], settings)


def _parts(call: Call) -> tuple[Value | None, Value | None, Value | None]:
    x, scale, zero = (*call.inputs, None, None)[:3]
    return x, scale, zero


def _by_integers(
    calls: Calls, call: Call, x: Value, weights: tuple[Value, Value, Value | None], bias: Value | None
) -> bool:
    """Write the exact sum of integers, scaled, where x is dequantised from bytes by one scale."""
    given = calls.writer(x, "dequantize_linear")
    if given is None or x.dtype is not F32:
        return False
    (left, left_scale, left_zero), (right, right_scale, right_zero) = _parts(given), weights
    if left is None or left_scale is None or left_scale.rank or left.dtype.name not in _BYTES:
        return False
    if right.dtype.name not in _BYTES or left_scale.dtype is not F32 or right_scale.dtype is not F32:
        return False
    summed = Value("", I32, call.outputs[0].dims)
    first = Call("matmul_integer", (left, right, left_zero, right_zero), {}, (summed,), stage=call.stage)
    _scaled(calls, call, first, (left_scale, right_scale), bias)
    return True


@ends_with("conv2d")
def _convolution(calls: Calls, call: Call) -> bool:
    """The convolution of dequantised bytes by dequantised bytes as the exact sum of integers, scaled."""
    x, w = call.inputs[0], call.inputs[1]
    given, weights = calls.writer(x, "dequantize_linear"), calls.writer(w, "dequantize_linear")
    if given is None or weights is None or x is None or w is None or x.dtype is not F32:
        return False
    (left, left_scale, left_zero), (right, right_scale, right_zero) = _parts(given), _parts(weights)
    if left is None or left_scale is None or right is None or right_scale is None or left_scale.rank:
        return False
    if left.dtype.name not in _BYTES or right.dtype.name not in _BYTES or left_scale.dtype is not F32:
        return False
    bias = call.inputs[2] if len(call.inputs) > 2 else None
    if right_scale.dtype is not F32 or "block_size" in weights.settings or x.rank != 4:
        return False
    if right_scale.rank and (weights.settings.get("axis", 1) != 0 or not right_scale.is_known):
        return False
    summed = Value("", I32, call.outputs[0].dims)
    settings = dict(call.settings)
    first = Call("conv_integer", (left, right, left_zero, right_zero), settings, (summed,), stage=call.stage)
    _scaled(calls, call, first, (left_scale, right_scale), bias)
    return True


@ends_with("quantize_linear")
def _quantised_again(calls: Calls, call: Call) -> bool:
    """A sum of integers that is scaled and quantised: by one factor, as `qlinear_matmul` does."""
    x, scale, zero = _parts(call)
    product = calls.inner(x, "mul")
    if product is None or x is None or scale is None or not scale.is_known or scale.rank or scale.dtype is not F32:
        return False
    real, factor = product.inputs
    converted = calls.writer(real, "cast")
    if converted is None or calls.writer(converted.inputs[0], "matmul_integer", "conv_integer") is None:
        return False
    if factor is None or not factor.is_known or scale.array() == 1:
        return False
    steps = known(np.asarray(factor.array() / scale.array(), np.float32), F32, factor.name)
    product.inputs = (real, steps)
    call.inputs = (x, known(np.asarray(1, np.float32), F32), zero)
    return True


@ends_with("add")
def _bias(calls: Calls, call: Call) -> bool:
    """A product with quantised weights plus a row."""
    a, b = call.inputs
    for x, bias in ((a, b), (b, a)):
        product = calls.inner(x, "qmatmul")
        if product is None or bias is None or product.inputs[4] is not None or not bias.dtype.is_float:
            continue
        if bias.dims == call.outputs[0].dims[-1:]:
            return calls.replace(call, "qmatmul", [*product.inputs[:4], bias], product.settings)
    return False


def _scaled(calls: Calls, call: Call, summed: Call, scales: tuple[Value, Value], bias: Value | None) -> None:
    """Make a call the sum of integers as numbers: times the product of two scales, plus a bias."""
    result, by_channel = call.outputs[0], summed.op == "conv_integer"
    real, before = Value("", F32, result.dims), [summed]
    before.append(Call("cast", summed.outputs, {"to": F32}, (real,), stage=call.stage))
    factor = _along_channels(_product_of(scales, before), before, by_channel=by_channel)
    if bias is None:
        calls.before(call, before)
        calls.replace(call, "mul", [real, factor])
        return
    product = Value("", F32, result.dims)
    before.append(Call("mul", (real, factor), {}, (product,), stage=call.stage))
    row = _along_channels(bias, before, by_channel=by_channel)
    calls.before(call, before)
    calls.replace(call, "add", [product, row])


def _product_of(scales: tuple[Value, Value], before: list[Call]) -> Value:
    left, right = scales
    if left.is_known and right.is_known:
        return known(np.asarray(left.array() * right.array(), np.float32), F32, f"{right.name}.product")
    product = Value("", F32, right.dims)
    before.append(Call("mul", scales, {}, (product,)))
    return product


def _along_channels(value: Value, before: list[Call], *, by_channel: bool) -> Value:
    """Return numbers of channels in the shape in which they go along channels; a single number as it is."""
    if not by_channel or not value.rank:
        return value
    dims = (value.dims[0], 1, 1)
    if value.is_known:
        array = value.array()
        return known(array.reshape(array.shape[0], 1, 1), value.dtype, value.name)
    shaped = Value("", value.dtype, dims)
    before.append(Call("reshape", (value,), {"shape": dims}, (shaped,)))
    return shaped
