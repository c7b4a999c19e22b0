"""Quantised forms: they stay quantised."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import BF16, F8, F16, F32, U8, DType
from openinfer.importers.onnx_files.elements import element_name, element_type
from openinfer.importers.onnx_files.families.windows import check_kernel, groups, spatial, windows, with_row
from openinfer.importers.onnx_files.node import Node
from openinfer.importers.onnx_files.package import onnx_module
from openinfer.importers.onnx_files.registry import contributed, translates

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.importers.onnx_files.values import Setting, Value


@contributed("QuantizeLinear", attributes="axis")
@translates("QuantizeLinear")
def _quantize(node: Node) -> Value:
    x = node.given(0)
    scale, zero = _parameters(node)
    dtype, precision, settings = _quantised_type(node), _precision(node), _blocks(node, scale)
    if precision is not F32:
        low = _in(node, scale, precision)
        divisor = _along(node, low, x, settings)
        x = node.call("div", _in(node, x, precision), divisor, div_by_zero_mask="ieee")
        scale = node.call("fill", low, value=1.0)
    return node.emit.typed("quantize_linear", dtype, x.dims, x, scale, zero, **settings)


def _precision(node: Node) -> DType:
    """Return the type in which x is divided by its scale.

    ONNX has the attribute since opset 23, by default the type of the scale. ONNX Runtime divides in f32 before it.
    """
    if node.opset < 23:
        return F32
    number = int(node.get("precision", 0))
    dtype = element_type(onnx_module(), number) if number else node.given(1).dtype
    if dtype not in (F32, F16, BF16):
        found = element_name(onnx_module(), number) if dtype is None else dtype.name
        node.refuse(f"precision={found}: x / y_scale is rounded to f32, f16 or bf16")
    return dtype


def _in(node: Node, value: Value, dtype: DType) -> Value:
    return value if value.dtype is dtype else node.call("cast", value, to=dtype)


def _along(node: Node, scale: Value, x: Value, settings: Mapping[str, Setting]) -> Value:
    """Return scales in a shape that broadcasts against x."""
    if not scale.rank:
        return scale
    axis, size = _axis(node) % x.rank, settings.get("block_size")
    if size is None:
        return node.reshaped(scale, [dim if place == axis else 1 for place, dim in enumerate(x.dims)])
    repeated = node.call("repeat", scale, axis=axis, count=size)
    return node.call("narrow", repeated, axis=axis, start=0, length=x.dims[axis])


def _quantised_type(node: Node) -> DType:
    number, zero = int(node.get("output_dtype", 0)), node.input(2)
    found = element_type(onnx_module(), number) if number else zero.dtype if zero is not None else U8
    if found is None:
        node.refuse("output_dtype, which OpenInfer does not have")
    return found


@contributed("DequantizeLinear", attributes="axis")
@translates("DequantizeLinear")
def _dequantize(node: Node) -> Value:
    x = node.given(0)
    scale, zero = _parameters(node)
    number = int(node.get("output_dtype", 0))
    dtype = element_type(onnx_module(), number) if number else scale.dtype
    if dtype is None:
        node.refuse("output_dtype, which OpenInfer does not have")
    return node.emit.typed("dequantize_linear", dtype, x.dims, x, scale, zero, **_blocks(node, scale))


def _parameters(node: Node) -> tuple[Value, Value | None]:
    """Return scale and zero point in one shape: f8 has no zero point, and one of a single element is a scalar.

    Such a scale is that of the whole tensor whatever the axis, which a vector does not have by default.
    """
    scale, zero = node.given(1), node.input(2)
    if scale.shape == (1,) and not node.get("block_size", 0):
        axis, dims = int(node.get("axis", 1)), node.given(0).dims
        if not (-len(dims) <= axis < len(dims) and dims[axis] == 1):
            scale = node.reshaped(scale, ())
    if zero is None or zero.dtype is F8:
        return scale, None
    return scale, node.reshaped(zero, scale.dims)


def _axis(node: Node) -> int:
    """Return the axis along which scales lie, which the input has to have."""
    axis, rank = int(node.get("axis", 1)), node.given(0).rank
    if not -rank <= axis < rank:
        node.refuse(f"axis={axis} of {rank} dims: several scales lie along an axis that the input has")
    return axis


def _blocks(node: Node, scale: Value) -> dict[str, Setting]:
    settings: dict[str, Setting] = {} if scale.rank == 0 else {"axis": _axis(node)}
    size = int(node.get("block_size", 0))
    return settings | ({"block_size": size} if size else {})


@translates("DynamicQuantizeLinear")
def _dynamic_quantize(node: Node) -> tuple[Value, ...]:
    return node.emit.ops("dynamic_quantize_linear", [node.given(0)], {})


def as_scalar(node: Node, value: Value) -> Value:
    """Return a zero point or scale; one of a single element is a scalar."""
    return node.reshaped(value, ()) if value.shape == (1,) else value


def _zero_points(node: Node) -> list[Value | None]:
    """Return the zero points of a product or convolution of integers."""
    given = (node.input(position) for position in (2, 3))
    return [None if zero is None else as_scalar(node, zero) for zero in given]


@translates("MatMulInteger")
def _matmul_integer(node: Node) -> Value:
    return node.call("matmul_integer", node.given(0), node.given(1), *_zero_points(node))


@translates("ConvInteger")
def _conv_integer(node: Node) -> Value:
    return convolved(node, node.given(0), node.given(1), *_zero_points(node))


def convolved(node: Node, x: Value, w: Value, x_zero: Value | None, w_zero: Value | None) -> Value:
    """Return the exact convolution of integers; a signal is an image of one row."""
    dims = spatial(node, 1, 2)
    check_kernel(node, w)
    settings = windows(node, dims)
    if dims == 2:
        return node.call("conv_integer", x, w, x_zero, w_zero, **settings, **groups(node))
    image, kernel = (node.call("unsqueeze", value, axes=(2,)) for value in (x, w))
    rows = {name: with_row(value, name) for name, value in settings.items()}
    return node.call(
        "squeeze", node.call("conv_integer", image, kernel, x_zero, w_zero, **rows, **groups(node)), axes=(2,)
    )


@translates("QLinearMatMul")
def _qlinear_matmul(node: Node) -> Value:
    inputs = [node.given(position) for position in range(8)]
    return node.call("qlinear_matmul", *(v if n in (0, 3) else as_scalar(node, v) for n, v in enumerate(inputs)))


@translates("QLinearConv")
def qlinear_conv(node: Node) -> Value:
    """The exact sum of integers, scaled and quantised again."""
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (
        node.given(position) if position in (0, 3) else as_scalar(node, node.given(position)) for position in range(8)
    )
    summed, along = convolved(node, x, w, x_zero, w_zero), [1] * (x.rank - 2)
    bias = node.input(8)
    if bias is not None:
        summed = node.call("add", summed, node.reshaped(bias, (bias.dims[0], *along)))
    scale = combined(node, x_scale, w_scale, y_scale)
    if scale.rank == 1:
        scale = node.reshaped(scale, (scale.dims[0], *along))
    return requantised(node, summed, scale, y_zero)


def requantised(node: Node, total: Value, scale: Value, zero: Value | None, dtype: DType = U8) -> Value:
    """Return a sum of integers times a scale, as f32, rounded half to even; without a zero point of a type."""
    code = node.call("mul", node.call("cast", total, to=F32), scale)
    one = node.number(1.0, F32)
    return node.emit.typed("quantize_linear", dtype if zero is None else zero.dtype, code.dims, code, one, zero)


def combined(node: Node, x_scale: Value, w_scale: Value, y_scale: Value) -> Value:
    """Return the number of steps of the result that a product of steps is, each operation rounded to f32."""
    if x_scale.is_known and w_scale.is_known and y_scale.is_known:
        return node.numbers(x_scale.array() * w_scale.array() / y_scale.array())
    return node.call("div", node.call("mul", x_scale, w_scale), y_scale, div_by_zero_mask="ieee")
