"""Products and convolutions of dequantised numbers: they stay quantised."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from openinfer.dtypes import F32, I32
from openinfer.importers.onnx_files.rewriting import Calls, ends_with
from openinfer.importers.onnx_files.sizes import is_number
from openinfer.importers.onnx_files.values import Call, Value, known

if TYPE_CHECKING:
    from openinfer.dtypes import DType
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
    if not size and _by_integers(calls, call, x, (integers, scale, zero), bias, is_transposed=is_transposed):
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
    calls: Calls,
    call: Call,
    x: Value,
    weights: tuple[Value, Value, Value | None],
    bias: Value | None,
    *,
    is_transposed: bool,
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
    if is_transposed:
        right = calls.transposed(right)
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
    """A sum of integers that is scaled and quantised: by one factor, as `qlinear_matmul` does.

    The bounds of the codes are those of a `relu` between the two, whose zero is the zero point.
    """
    x, scale, zero = _parts(call)
    clipped = calls.inner(x, "relu")
    if clipped is not None:
        if clipped.settings or not _is_lowest(zero, call.outputs[0].dtype):
            return False
        x = clipped.inputs[0]
    product = calls.inner(x, "mul")
    if product is None or x is None or scale is None or not scale.is_known or scale.rank or scale.dtype is not F32:
        return False
    real, factor = product.inputs
    converted = calls.writer(real, "cast")
    if converted is None or not _is_sum_of_integers(calls, converted.inputs[0]):
        return False
    if factor is None or not factor.is_known or scale.array() == 1:
        return False
    steps = known(np.asarray(factor.array() / scale.array(), np.float32), F32, factor.name)
    product.inputs = (real, steps)
    call.inputs = (x, known(np.asarray(1, np.float32), F32), zero)
    return True


def _is_lowest(zero: Value | None, dtype: DType) -> bool:
    """Whether a zero point is the least code of a type."""
    if zero is None:
        return dtype.minimum == 0
    return zero.is_known and zero.rank == 0 and int(zero.array()) == dtype.minimum


def _is_sum_of_integers(calls: Calls, total: Value | None) -> bool:
    """Whether a value is the sum of products of a layer, maybe with a bias in its steps."""
    biased = calls.writer(total, "add")
    return calls.writer(total if biased is None else biased.inputs[0], "matmul_integer", "conv_integer") is not None


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
    """Make a call the sum of integers as numbers: times the product of two scales, plus a bias.

    A bias of whole steps of the sum is added to it before.
    """
    result, by_channel = call.outputs[0], summed.op == "conv_integer"
    (total,), before = summed.outputs, [summed]
    steps = None if bias is None else _in_steps(bias, scales)
    if steps is not None:
        biased, row = Value("", I32, result.dims), _along_channels(steps, before, by_channel=by_channel)
        before.append(Call("add", (total, row), {}, (biased,), stage=call.stage))
        total, bias = biased, None
    real = Value("", F32, result.dims)
    before.append(Call("cast", (total,), {"to": F32}, (real,), stage=call.stage))
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


MOST_STEPS = 1 << 22
"""Those of the largest bias: f32 tells more of them apart no more."""

_ROUNDED = 2.0**-22
"""How far a bias of whole steps may lie from these, as a part of itself: two roundings to f32."""


def _in_steps(bias: Value, scales: tuple[Value, Value]) -> Value | None:
    """Return a known bias as integers whose step is the product of two scales; None where it has fractions of steps.

    Quantisers store biases in these steps, so that no rounding is added.
    """
    left, right = scales
    if not (bias.is_known and left.is_known and right.is_known) or bias.dtype is not F32 or bias.rank != 1:
        return None
    if right.rank and right.dims != bias.dims:
        return None
    real, step = bias.array().astype(np.float64), left.array().astype(np.float64) * right.array()
    if not (np.isfinite(real).all() and np.isfinite(step).all() and np.all(step)):
        return None
    steps = np.rint(real / step)
    if np.any(abs(steps) > MOST_STEPS) or np.any(abs(steps * step - real) > _ROUNDED * abs(real)):
        return None
    return known(steps.astype(np.int32), I32, bias.name)


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
