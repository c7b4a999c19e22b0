"""Convolution and pooling."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from openinfer.dtypes import F32, I8, I16, I32, I64, U8
from openinfer.importers.onnx_files.sizes import is_number
from openinfer.importers.tflite_files.image_order import permuted
from openinfer.importers.tflite_files.node import Node, is_quantised
from openinfer.importers.tflite_files.requantising import (
    activated,
    activation,
    requantised,
    same_parameters,
    within_bounds,
)

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.source import Array
    from openinfer.importers.onnx_files.values import Setting, Value

MOST_TAPS = (1 << 31) // (255 << 7)
"""Products of bytes whose sum i32 certainly holds."""

PADDINGS = ("same_upper", "valid")
"""By their numbers in the schema."""

_HYBRID = "hybrid layers: LiteRT rounds their inputs to 8 bits by the range of each input, the program does not"


def _pair(first: int, second: int) -> Setting:
    return first if first == second else (first, second)


def windows(node: Node) -> dict[str, Setting]:
    """Return the settings of a window that differ from the defaults."""
    settings: dict[str, Setting] = {}
    padding = node.choice("Padding", PADDINGS)
    if padding != "valid":
        settings["padding"] = padding
    for setting, names in (("stride", ("StrideH", "StrideW")), ("dilation", ("DilationHFactor", "DilationWFactor"))):
        steps = [int(node.option(name, 1)) for name in names]
        if min(steps) < 1:
            node.refuse(f"{setting} is {steps}, expected at least 1")
        if steps != [1, 1]:
            settings[setting] = _pair(*steps)
    return settings


def _conv(node: Node) -> Value:
    return _convolved(node, (0, 3, 1, 2), is_depthwise=False)


def _depthwise_conv(node: Node) -> Value:
    return _convolved(node, (3, 0, 1, 2), is_depthwise=True)


def _convolved(node: Node, order: tuple[int, ...], *, is_depthwise: bool) -> Value:
    x, w = node.planes(0), node.given(1)
    if w.rank != 4:
        node.refuse(f"the weight has {w.rank} dims, expected 4")
    w = node.part(w, "weight")
    w = permuted(node.emit, w, order) if node.is_quantised else real_weight(node, w, order)
    channels, inner = x.dims[1], w.dims[1]
    if not is_number(channels) or not is_number(inner):
        node.refuse("the number of channels depends on sizes: fix them with --set")
    groups = channels if is_depthwise else channels // max(inner, 1)
    settings = windows(node) | ({} if groups == 1 else {"groups": groups})
    bias = node.input(2)
    if bias is not None:
        bias = node.part(bias, "bias")
    if not node.is_quantised:
        return node.order.image(activated(node, node.call("conv2d", x, w, bias, **settings)))
    total = integer_products(node, "conv_integer", x, w, **settings)
    if bias is not None:
        total = with_bias(node, total, per_plane(node, bias))
    scale = scales_of_products(node)
    return node.order.image(requantised(node, total, scale.reshape(-1, 1, 1) if scale.size > 1 else scale.reshape(())))


def per_plane(node: Node, value: Value) -> Value:
    """Return one number for each channel in the shape that broadcasts against planes."""
    if value.payload is None:
        return node.call("reshape", value, shape=(*value.dims, 1, 1))
    array = value.array().reshape(-1, 1, 1)
    return node.constant(array, value.name)


def real_weight(node: Node, w: Value, order: tuple[int, ...]) -> Value:
    """Return the weight of a layer of reals with its dims in another order.

    One that is stored in integers stays so, and is dequantised where it is used.
    """
    moved, tensor = permuted(node.emit, w, order), node.tensor(1)
    if not is_quantised(tensor) or tensor.quantisation is None:
        return moved
    parameters = tensor.quantisation
    if parameters.zero.any():
        node.refuse(f"hybrid: the weight {tensor.name!r} has zero points")
    if _HYBRID not in node.emit.notes:
        node.emit.notes.append(_HYBRID)
    scale = parameters.scale if parameters.is_per_channel else parameters.scale.reshape(())
    settings: dict[str, Setting] = {"axis": order.index(parameters.axis)} if parameters.is_per_channel else {}
    scales = node.part(node.constant(scale), "scale")
    return node.emit.typed("dequantize_linear", F32, moved.dims, moved, scales, **settings)


def zero_points(node: Node) -> tuple[Value | None, Value | None]:
    """Return the zero points of an input and a weight as an integer product takes them; None for zero."""
    x_type, w_type = node.tensor(0).dtype, node.tensor(1).dtype
    if (x_type.bits != 8 and x_type is not I16) or w_type.bits not in (4, 8):
        node.refuse(f"{x_type} times {w_type}, expected integers of 8 bits, or i16 times i8")
    if not is_quantised(node.tensor(1)):
        node.refuse(f"the weight {node.tensor(1).name!r} has no scale")
    weight = node.tensor(1).quantisation
    x_zero = int(node.parameters(node.tensor(0)).zero[0])
    w_zeros: Array = np.zeros(1, np.int64) if weight is None else weight.zero
    zero = node.number(x_zero, node.tensor(0).dtype) if x_zero else None
    if x_type is I16 and (x_zero or w_zeros.any()):
        node.refuse("zero points of layers of 16 bits, expected zeros")
    if not w_zeros.any():
        return zero, None
    if len(set(w_zeros.tolist())) > 1:
        node.refuse("zero points of weights that differ from channel to channel")
    return zero, node.number(int(w_zeros[0]), node.tensor(1).dtype)


def integer_products(node: Node, op: str, x: Value, w: Value, **settings: Setting) -> Value:
    """Return exact sums of products: in i32 of codes of 8 bits, in i64 of those of 16 bits, byte by byte."""
    zeros = zero_points(node)
    if x.dtype is I16:
        return wide_products(node, op, x, w, **settings)
    return node.call(op, x, w, *zeros, **settings)


def wide_products(node: Node, op: str, x: Value, w: Value, **settings: Setting) -> Value:
    """Return exact sums of products of 16 and 8 bits in i64, byte by byte."""
    shape = w.shape or ()
    if math.prod(shape) // max(min(shape, default=1), 1) > MOST_TAPS:
        node.refuse(f"sums of more than {MOST_TAPS} products of 16 bits")
    upper = node.call("cast", node.call("shr", x, bits=8), to=I8)
    lower = node.call("cast", node.call("and", x, node.number(255, I16)), to=U8)
    high, low = (node.call("cast", node.call(op, part, w, **settings), to=I64) for part in (upper, lower))
    return node.call("add", node.call("shl", high, bits=8), low)


def with_bias(node: Node, total: Value, bias: Value) -> Value:
    """Return sums with a bias, in its type: TFLite sums layers of 16 bits in it, and wraps."""
    if total.dtype is not bias.dtype:
        total = node.call("cast", total, to=bias.dtype, saturate=False)
    return node.call("add", total, bias)


def scales_of_products(node: Node) -> Array:
    """Return the real value of one step of a product of an input and a weight, one for each channel or one.

    In f32, or in f64 where codes are computed in fixed point.
    """
    weight = node.tensor(1).quantisation
    if weight is None:
        node.refuse(f"the weight {node.tensor(1).name!r} has no scale")
    scale = node.parameters(node.tensor(0)).scale[0]
    if node.rounding == "f32":
        return scale * weight.scale
    return np.float64(scale) * weight.scale.astype(np.float64)


def pool_settings(node: Node) -> dict[str, Setting]:
    kernel = int(node.option("FilterHeight")), int(node.option("FilterWidth"))
    return {"kernel": _pair(*kernel), **windows(node)}


def _max_pool(node: Node) -> Value:
    made = node.call("max_pool2d", node.planes(0), **pool_settings(node))
    if not node.is_quantised:
        return node.order.image(activated(node, made))
    _need_same_parameters(node)
    return node.order.image(within_bounds(node, made, node.results[0], activation(node)))


def _average_pool(node: Node) -> Value:
    x, settings = node.planes(0), pool_settings(node)
    if not node.is_quantised:
        return node.order.image(activated(node, node.call("avg_pool2d", x, **settings)))
    _need_same_parameters(node)
    total, counts = _window_sums(node, x, settings)
    # The mean of codes in integers, halves away from zero: (total + sign * count / 2) / count towards zero.
    sign = node.call("cast", node.call("sign", total), to=I32)
    half = node.call("mul", sign, node.constant((counts // 2).astype(np.int32)))
    mean = node.call("div", node.call("add", total, half), node.constant(counts.astype(np.int32)))
    made = node.call("cast", mean, to=node.results[0].dtype)
    return node.order.image(within_bounds(node, made, node.results[0], activation(node)))


def _window_sums(node: Node, x: Value, settings: dict[str, Setting]) -> tuple[Value, Array]:
    """Return the sum of each window in i32, and of how many elements each is."""
    height, width = (int(node.option(name)) for name in ("FilterHeight", "FilterWidth"))
    extents = [dim if is_number(dim) else 0 for dim in x.dims[2:]]
    if extents == [height, width] and settings.get("padding") is None:
        total = node.call("sum_axis", node.call("cast", x, to=I32), axes=(2, 3), keepdims=True)
        return total, np.array(height * width)
    channels = x.dims[1] if is_number(x.dims[1]) else 0
    if not channels or 0 in extents:
        node.refuse("the shape depends on sizes: fix them with --set")
    ones = node.constant(np.ones((channels, 1, height, width), np.int8))
    convolution = {name: value for name, value in settings.items() if name != "kernel"}
    if x.dtype is I16:
        wide = wide_products(node, "conv_integer", x, ones, groups=channels, **convolution)
        total = node.call("cast", wide, to=I32)
    else:
        total = node.call("conv_integer", x, ones, groups=channels, **convolution)
    if settings.get("padding") is None:
        return total, np.array(height * width)
    strides = int(node.option("StrideH", 1)), int(node.option("StrideW", 1))
    down, across = map(_elements_in_windows, extents, (height, width), strides)
    return total, down[:, None] * across


def _elements_in_windows(extent: int, kernel: int, stride: int) -> Array:
    """Return how many elements of a dim lie in each window that "same_upper" has."""
    count = -(-extent // stride)
    before = max((count - 1) * stride + kernel - extent, 0) // 2
    starts = np.arange(count) * stride - before
    return np.minimum(starts + kernel, extent) - np.maximum(starts, 0)


def _need_same_parameters(node: Node) -> None:
    if not same_parameters(node.tensor(0), node.results[0]):
        node.refuse("input and output have different scales, expected the same")


def _l2_pool(node: Node) -> Value:
    squares = node.call("avg_pool2d", node.call("square", node.planes(0)), **pool_settings(node))
    return node.order.image(activated(node, node.call("sqrt", squares)))


TRANSLATORS = MappingProxyType(
    {
        "AVERAGE_POOL_2D": _average_pool,
        "CONV_2D": _conv,
        "DEPTHWISE_CONV_2D": _depthwise_conv,
        "L2_POOL_2D": _l2_pool,
        "MAX_POOL_2D": _max_pool,
    }
)
