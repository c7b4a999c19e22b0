"""Quantised forms."""

from __future__ import annotations

from typing import Any

import numpy as np

from random_onnx.calls import Call
from random_onnx.graphs import Array
from random_onnx.recipe_registry import draws
from random_onnx.recipes.windows import windows

SCALES = (0.5, 0.25, 0.1, 2.0, 0.031)


def _scale(call: Call, shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
    return np.asarray(call.random.choices(SCALES, k=int(np.prod(shape)))).reshape(shape).astype(dtype)


def _axis_shape(call: Call, array: Array) -> tuple[int, ...]:
    """Return the shape of a scale: a scalar, or one for each place along an axis."""
    if array.ndim < 1 or call.schema.since_version < 13 or call.chance(0.5):
        return call.random.choice(((), (1,)))
    axis = call.random.randrange(-array.ndim, array.ndim)
    call.attributes["axis"] = axis
    return (array.shape[axis],)


@draws("QuantizeLinear")
def _quantize(call: Call) -> None:
    call.prefer("x", np.float32, np.float32, np.float16)
    array = call.take("x")
    shape = _axis_shape(call, array)
    call.add("y_scale", _scale(call, shape, array.dtype), known=None)
    if call.chance(0.8):
        call.prefer("y_zero_point", np.uint8, np.int8, np.int16, np.uint16)
        call.take("y_zero_point", shape=shape, fresh=True)


@draws("DequantizeLinear")
def _dequantize(call: Call) -> None:
    call.prefer("x", np.uint8, np.int8, np.int32, np.int16)
    array = call.take("x")
    shape = _axis_shape(call, array)
    call.add("x_scale", _scale(call, shape), known=None)
    if array.dtype == np.int32:
        if call.chance(0.5):
            call.add("x_zero_point", np.zeros(shape, np.int32))
    elif call.chance(0.8):
        call.take("x_zero_point", shape=shape, fresh=True)


@draws("QLinearConv")
def _qlinear_conv(call: Call) -> None:
    kernel = [call.extent(most=3) for _ in range(call.random.choice((1, 2, 2, 2)))]
    groups = call.random.choice((1, 1, 2))
    taken, made = groups * call.extent(most=2), groups * call.extent(most=3)
    image = (call.extent(most=2), taken, *(extent + call.extent(least=0, most=4) for extent in kernel))
    call.take("x", shape=image)
    call.add("x_scale", _scale(call, ()))
    call.take("x_zero_point", shape=(), fresh=True)
    call.take("w", shape=(made, taken // groups, *kernel))
    several = (made,) if call.chance(0.4) else ()
    call.add("w_scale", _scale(call, several))
    # Onnxruntime requires zero points of weights that are all the same.
    call.add("w_zero_point", np.full(several, call.random.choice((0, 3)), call.dtype("w_zero_point")))
    call.add("y_scale", _scale(call, ()))
    call.take("y_zero_point", shape=(), fresh=True)
    if call.chance(0.5):
        call.add("B", np.random.default_rng(call.random.randrange(1 << 32)).integers(-99, 99, made).astype(np.int32))
    windows(call, kernel)
    if groups > 1:
        call.attributes["group"] = groups
