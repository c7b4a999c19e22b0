"""Operators on bytes that ONNX Runtime's quantiser writes: they stay sums and tables of integers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.dtypes import F32, I8, I32, U8, DType
from openinfer.importers.onnx_files.families.quantisation import as_scalar, combined, qlinear_conv, requantised
from openinfer.importers.onnx_files.families.windows import windows
from openinfer.importers.onnx_files.node import Node
from openinfer.importers.onnx_files.registry import contributed
from openinfer.importers.onnx_files.sizes import is_number
from openinfer.importers.onnx_files.values import known

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.importers.onnx_files.source import Array
    from openinfer.importers.onnx_files.values import Setting, Value

WINDOW = "auto_pad kernel_shape pads strides"


@dataclass(frozen=True, slots=True)
class _Grid:
    """The scale and the zero point of a tensor of bytes."""

    scale: Value
    zero: Value | None

    @property
    def dtype(self) -> DType:
        return U8 if self.zero is None else self.zero.dtype

    @property
    def is_known(self) -> bool:
        return self.scale.is_known and (self.zero is None or self.zero.is_known)


def _grid(node: Node, position: int, like: Value | None = None) -> _Grid:
    """Return the scale at a position and the zero point after it; one that is left out is 0 of the type of ``like``."""
    zero = node.input(position + 1)
    if zero is None and like is not None:
        zero = node.number(0, like.dtype)
    return _Grid(as_scalar(node, node.given(position)), None if zero is None else as_scalar(node, zero))


def _real(node: Node, x: Value, grid: _Grid) -> Value:
    return node.emit.typed("dequantize_linear", F32, x.dims, x, grid.scale, grid.zero)


def _quantised(node: Node, x: Value, grid: _Grid) -> Value:
    return node.emit.typed("quantize_linear", grid.dtype, x.dims, x, grid.scale, grid.zero)


def _by_table(node: Node, x: Value, of: _Grid, to: _Grid, op: str = "", **settings: Setting) -> Value:
    """Return a function of each byte, which a table of all bytes holds where both grids are known."""
    if not (of.is_known and to.is_known):
        real = _real(node, x, of)
        return _quantised(node, node.call(op, real, **settings) if op else real, to)
    if not op and _numbers(of) == _numbers(to) and x.dtype is to.dtype:
        return x
    return node.call("gather", known(_table(x.dtype, of, to, _FUNCTIONS[op], settings), to.dtype), x)


def _numbers(grid: _Grid) -> tuple[float, int]:
    zero = 0 if grid.zero is None else int(grid.zero.array().reshape(()))
    return float(grid.scale.array().reshape(())), zero


def _table(dtype: DType, of: _Grid, to: _Grid, function: Callable[..., Array], settings: dict[str, Setting]) -> Array:
    """Return the results of bytes 0 to 255; those of negative ones come last, where indices count from the end."""
    (scale, zero), (step, start) = _numbers(of), _numbers(to)
    codes = np.arange(256, dtype=np.uint8).astype(storage_dtype(dtype)).astype(np.int32)
    real = function((codes - zero).astype(np.float32) * np.float32(scale), **settings)
    limits = np.iinfo(storage_dtype(to.dtype))
    rounded = np.rint(real.astype(np.float32) / np.float32(step)) + start
    return np.clip(rounded, limits.min, limits.max).astype(storage_dtype(to.dtype))


def _relu(x: Array, alpha: float) -> Array:
    return np.where(x < 0, np.float32(alpha) * x, x)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x.astype(np.float64)))


_FUNCTIONS: dict[str, Callable[..., Array]] = {"": np.asarray, "relu": _relu, "sigmoid": _sigmoid}


# Element by element


@contributed("QLinearLeakyRelu", attributes="alpha")
def _qlinear_leaky_relu(node: Node) -> Value:
    x = node.given(0)
    return _by_table(node, x, _grid(node, 1, x), _grid(node, 3, x), "relu", alpha=node.real("alpha", 0.01))


@contributed("QLinearSigmoid")
def _qlinear_sigmoid(node: Node) -> Value:
    x = node.given(0)
    return _by_table(node, x, _grid(node, 1, x), _grid(node, 3, x), "sigmoid")


@contributed("QLinearAdd")
def _qlinear_add(node: Node) -> Value:
    a, b = node.given(0), node.given(3)
    total = node.call("add", _real(node, a, _grid(node, 1, a)), _real(node, b, _grid(node, 4, b)))
    return _quantised(node, total, _grid(node, 6, a))


@contributed("QLinearMul")
def _qlinear_mul(node: Node) -> Value:
    a, b = node.given(0), node.given(3)
    grids = _grid(node, 1, a), _grid(node, 4, b), _grid(node, 6, a)
    product = node.call("mul", *(_centred(node, x, grid) for x, grid in ((a, grids[0]), (b, grids[1]))))
    scale = combined(node, *(grid.scale for grid in grids))
    return requantised(node, product, scale, grids[2].zero)


def _centred(node: Node, x: Value, grid: _Grid) -> Value:
    """Return bytes less their zero point, in i32."""
    wide = node.call("cast", x, to=I32)
    if grid.zero is None or (grid.zero.is_known and not grid.zero.array().any()):
        return wide
    return node.call("sub", wide, node.call("cast", grid.zero, to=I32))


@contributed("QLinearConcat", attributes="axis")
def _qlinear_concat(node: Node) -> Value:
    to = _grid(node, 0)
    parts = [
        _by_table(node, node.given(position), _grid(node, position + 1, node.given(position)), to)
        for position in range(2, len(node.inputs), 3)
    ]
    return node.call("concat", *parts, axis=int(node.get("axis")))


@contributed("QLinearWhere")
def _qlinear_where(node: Node) -> Value:
    to = _grid(node, 7)
    sides = [_by_table(node, node.given(position), _grid(node, position + 1), to) for position in (1, 4)]
    return node.call("where", node.given(0), *sides)


# Means, softmax


@contributed("QLinearGlobalAveragePool", attributes="channels_last")
def _qlinear_global_average_pool(node: Node) -> Value:
    x = node.given(0)
    axes = tuple(range(1, x.rank - 1) if node.flag("channels_last") else range(2, x.rank))
    return _mean(node, x, axes)


def _mean(node: Node, x: Value, axes: tuple[int, ...]) -> Value:
    """Return the sum of integers, scaled once by the quotient of the scales and of the number of elements."""
    of, to = _grid(node, 1, x), _grid(node, 3, x)
    extents = [x.dims[axis] for axis in axes]
    count = math.prod(extent for extent in extents if is_number(extent))
    if any(not is_number(extent) for extent in extents):
        node.refuse_sizes("the number of elements of a mean", *extents)
    total = node.call("sum_axis", _centred(node, x, of), axes=axes, keepdims=True)
    scale = combined(node, of.scale, node.number(1.0, F32), _times(node, to.scale, count))
    return requantised(node, total, scale, to.zero)


def _times(node: Node, scale: Value, count: int) -> Value:
    if scale.is_known:
        return node.numbers(scale.array() * np.float32(count))
    return node.call("mul", scale, node.number(float(count), F32))


@contributed("QLinearAveragePool", attributes=f"ceil_mode channels_last count_include_pad {WINDOW}")
def _qlinear_average_pool(node: Node) -> Value:
    node.require("ceil_mode", 0)
    is_last, x = node.flag("channels_last"), node.given(0)
    if x.rank != 4:
        node.refuse(f"{x.rank - 2} spatial dims, expected 2")
    of, to = _grid(node, 1, x), _grid(node, 3, x)
    image = node.call("transpose", x, perm=(0, 3, 1, 2)) if is_last else x
    total = _window_sums(node, image, of)
    kernel = [int(extent) for extent in node.get("kernel_shape")]
    if node.flag("count_include_pad") or "padding" not in windows(node, 2):
        counts = node.number(math.prod(kernel), F32)
    else:
        ones = node.call("expand", node.number(1, I8), shape=(1, 1, *image.dims[2:]))
        counts = node.call("cast", _window_sums(node, ones, None), to=F32)
    mean = node.call("div", node.call("cast", total, to=F32), counts)
    steps = node.call("mul", mean, combined(node, of.scale, node.number(1.0, F32), to.scale))
    found = _quantised(node, steps, _Grid(node.number(1.0, F32), to.zero))
    return node.call("transpose", found, perm=(0, 2, 3, 1)) if is_last else found


def _window_sums(node: Node, x: Value, of: _Grid | None) -> Value:
    """Return the sums of bytes in the windows of a pool, which are convolutions with ones, channel by channel."""
    channels = x.dims[1]
    if not is_number(channels):
        node.refuse_sizes("the number of channels", channels)
    kernel = known(np.ones((channels, 1, *node.get("kernel_shape")), np.int8), I8)
    settings = windows(node, 2) | ({"groups": channels} if channels > 1 else {})
    return node.call("conv_integer", x, kernel, None if of is None else of.zero, None, **settings)


@contributed("QLinearSoftmax", attributes="axis opset")
def _qlinear_softmax(node: Node) -> Value:
    x, axis = node.given(0), int(node.get("axis", -1))
    real = _real(node, x, _grid(node, 1, x))
    to = _grid(node, 3)
    if int(node.get("opset")) >= 13 or axis % x.rank == x.rank - 1:
        return _quantised(node, node.call("softmax", real, axis=axis), to)
    # Before opset 13 the dims from the axis on were one.
    rows = node.call("softmax", node.call("flatten", real, axis=axis))
    return _quantised(node, node.call("reshape", rows, shape=x.dims), to)


# Products and convolutions


@contributed("QLinearConv", attributes=f"channels_last dilations group {WINDOW}")
def _qlinear_conv(node: Node) -> Value:
    node.require("channels_last", 0)
    return qlinear_conv(node)


@contributed("QGemm", attributes="alpha transA transB")
def _qgemm(node: Node) -> Value:
    """The exact sum of integers, and C in its steps, scaled once."""
    a, b, bias, y_scale = node.given(0), node.given(3), node.input(6), node.input(7)
    a, b = (
        node.call("transpose", value, perm=(1, 0)) if node.flag(name) else value
        for value, name in ((a, "transA"), (b, "transB"))
    )
    a_scale, a_zero, b_scale, b_zero = (as_scalar(node, node.given(position)) for position in (1, 2, 4, 5))
    total = node.call("matmul_integer", a, b, a_zero, b_zero)
    if bias is not None:
        total = node.call("add", total, bias)
    alpha = node.number(node.real("alpha", 1.0), F32)
    left = a_scale if node.get("alpha", 1.0) == 1.0 else _product(node, alpha, a_scale)
    if y_scale is None:
        return node.call("mul", node.call("cast", total, to=F32), _product(node, left, b_scale))
    zero = node.input(8)
    factor = combined(node, left, b_scale, as_scalar(node, y_scale))
    return requantised(node, total, factor, None if zero is None else as_scalar(node, zero), a.dtype)


def _product(node: Node, left: Value, right: Value) -> Value:
    if left.is_known and right.is_known:
        return node.numbers(left.array() * right.array())
    return node.call("mul", left, right)


def scaled(node: Node, total: Value, left: Value, right: Value, bias: Value | None) -> Value:
    """Return a sum of products of integers as numbers, plus a bias."""
    real = node.call("mul", node.call("cast", total, to=F32), _product(node, left, right))
    return real if bias is None else node.call("add", real, bias)


@contributed("DynamicQuantizeMatMul")
def _dynamic_quantize_matmul(node: Node) -> Value:
    x, scale, zero = node.emit.ops("dynamic_quantize_linear", [node.given(0)], {})
    weights_zero = node.input(3)
    total = node.call(
        "matmul_integer", x, node.given(1), zero, None if weights_zero is None else as_scalar(node, weights_zero)
    )
    return scaled(node, total, scale, as_scalar(node, node.given(2)), node.input(4))


@contributed("MatMulIntegerToFloat")
def _matmul_integer_to_float(node: Node) -> Value:
    zeros = [None if (zero := node.input(position)) is None else as_scalar(node, zero) for position in (4, 5)]
    total = node.call("matmul_integer", node.given(0), node.given(1), *zeros)
    left, right = (as_scalar(node, node.given(position)) for position in (2, 3))
    return scaled(node, total, left, right, node.input(6))
