"""Convolution, pooling and resizing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from openinfer.dtypes import F32, I64
from openinfer.importers.onnx_files.sizes import is_number
from openinfer.importers.onnx_files.values import of_elements
from openinfer.importers.torch_files.node import Node
from openinfer.importers.torch_files.registry import translates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.dims import Size
    from openinfer.importers.onnx_files.values import Value


def _batched(node: Node, x: Value, rank: int) -> Value:
    """Return an image with a batch of one, where it has none."""
    return node.call("unsqueeze", x, axes=(0,)) if x.rank == rank - 1 else x


def _unbatched(node: Node, made: Value, x: Value) -> Value:
    return made if made.rank == x.rank else node.call("squeeze", made, axes=(0,))


# Convolution


@translates("convolution", "conv1d", "conv2d", "conv1d.padding", "conv2d.padding", "_convolution")
def _convolution(node: Node) -> Value:
    if node.flag("transposed"):
        return _transposed(node)
    x, weight = node.tensor("input"), node.tensor("weight")
    dims = weight.rank - 2
    attributes: dict[str, Any] = {
        "strides": list(node.pair("stride", dims)),
        "dilations": list(node.pair("dilation", dims)),
        "group": node.integer("groups"),
        "pads": _pads(node, weight, dims),
    }
    made = node.onnx("Conv", _batched(node, x, dims + 2), weight, node.optional("bias"), **attributes)
    return _unbatched(node, made, x)


def _pads(node: Node, weight: Value, dims: int) -> list[int]:
    padding = node.get("padding")
    if padding == "valid":
        return [0] * (2 * dims)
    if padding == "same":
        totals = [
            dilation * (int(kernel) - 1)
            for dilation, kernel in zip(node.pair("dilation", dims), weight.dims[2:], strict=True)
        ]
        return [total // 2 for total in totals] + [total - total // 2 for total in totals]
    return list(node.pair("padding", dims)) * 2


@translates("conv_transpose1d", "conv_transpose2d.input")
def _transposed(node: Node) -> Value:
    x, weight = node.tensor("input"), node.tensor("weight")
    dims = weight.rank - 2
    made = node.onnx(
        "ConvTranspose",
        _batched(node, x, dims + 2),
        weight,
        node.optional("bias"),
        strides=list(node.pair("stride", dims)),
        dilations=list(node.pair("dilation", dims)),
        pads=list(node.pair("padding", dims)) * 2,
        output_padding=list(node.pair("output_padding", dims)),
        group=node.integer("groups"),
    )
    return _unbatched(node, made, x)


# Pooling


def _window(node: Node, dims: int) -> dict[str, Any]:
    kernel = node.pair("kernel_size", dims)
    stride = node.get("stride")
    return {
        "kernel_shape": list(kernel),
        "strides": list(node.pair("stride", dims)) if stride else list(kernel),
        "pads": list(node.pair("padding", dims)) * 2,
        "ceil_mode": int(node.flag("ceil_mode")),
    }


@translates("max_pool1d", "max_pool2d", "max_pool2d_with_indices", "max_pool1d_with_indices")
def _max_pool(node: Node) -> tuple[Value | None, ...] | Value:
    x, dims = node.tensor(), int(node.op[8])
    window = _window(node, dims) | {"dilations": list(node.pair("dilation", dims))}
    made = _unbatched(node, node.onnx("MaxPool", _batched(node, x, dims + 2), **window), x)
    return (made, None) if node.op.endswith("indices") else made


@translates("avg_pool1d", "avg_pool2d")
def _avg_pool(node: Node) -> Value:
    x, dims = node.tensor(), int(node.op[8])
    if node.get("divisor_override") is not None:
        node.refuse("divisor_override")
    window = _window(node, dims) | {"count_include_pad": int(node.flag("count_include_pad"))}
    return _unbatched(node, node.onnx("AveragePool", _batched(node, x, dims + 2), **window), x)


@translates(
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "_adaptive_avg_pool2d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
)
def _adaptive(node: Node) -> tuple[Value | None, ...] | Value:
    """Windows that divide an image into so many rows and columns."""
    x = node.tensor()
    dims = 1 if node.op.endswith("1d") else 2
    is_max = "max" in node.op
    wanted, sizes = node.pair("output_size", dims), x.dims[-dims:]
    image = _batched(node, x, dims + 2)
    if all(number == 1 for number in wanted):
        made = node.call("global_max_pool" if is_max else "global_avg_pool", image)
    else:
        made = _even_windows(node, image, sizes, wanted, is_max=is_max)
    made = _unbatched(node, made, x)
    return (made, None) if is_max else made


def _even_windows(node: Node, x: Value, sizes: Sequence[Size], wanted: Sequence[int], *, is_max: bool) -> Value:
    if not all(map(is_number, sizes)):
        node.refuse("an image whose extents depend on sizes: fix them with --set")
    extents = [int(size) for size in sizes]
    if all(extent % number == 0 for extent, number in zip(extents, wanted, strict=True)):
        kernel = tuple(extent // number for extent, number in zip(extents, wanted, strict=True))
        pool = "max_pool" if is_max else "avg_pool"
        return node.call(f"{pool}{len(wanted)}d", x, kernel=kernel, stride=kernel)
    for place, (extent, number) in enumerate(zip(extents, wanted, strict=True)):
        x = _uneven_windows(node, x, x.rank - len(wanted) + place, extent, number, is_max=is_max)
    return x


def _uneven_windows(node: Node, x: Value, axis: int, extent: int, number: int, *, is_max: bool) -> Value:
    """Return one dim in windows that overlap, or have other lengths: from floor(i n / m) to ceil((i + 1) n / m)."""
    op = "max_axis" if is_max else "mean_axis"
    rows = [
        node.call(
            op,
            node.call("narrow", x, axis=axis, start=place * extent // number, length=_length(place, extent, number)),
            axes=(axis,),
            keepdims=True,
            **({"nan": "propagate"} if is_max else {}),
        )
        for place in range(number)
    ]
    return rows[0] if number == 1 else node.call("concat", *rows, axis=axis)


def _length(place: int, extent: int, number: int) -> int:
    return -(-(place + 1) * extent // number) - place * extent // number


# Resizing


@translates(
    "upsample_nearest1d",
    "upsample_nearest2d",
    "upsample_nearest1d.vec",
    "upsample_nearest2d.vec",
    "upsample_linear1d",
    "upsample_linear1d.vec",
    "upsample_bilinear2d",
    "upsample_bilinear2d.vec",
    "upsample_bicubic2d",
    "upsample_bicubic2d.vec",
    "_upsample_nearest_exact2d",
    "_upsample_nearest_exact2d.vec",
    "_upsample_bilinear2d_aa",
)
def _upsample(node: Node) -> Value:
    x = node.tensor("self" if node.get("self") is not None else "input")
    dims = x.rank - 2
    factors = node.get("scale_factors") or tuple(
        factor for factor in (node.get(name) for name in ("scales", "scales_h", "scales_w")) if factor
    )
    attributes = _mode(node) | {"axes": list(range(2, x.rank))}
    if len(factors) == dims and node.flag("align_corners") and all(map(is_number, x.dims[2:])):
        # PyTorch aligns the corners of the lengths rounded down, ONNX's Resize those of the lengths before.
        lengths = [math.floor(size * factor) for size, factor in zip(x.dims[2:], factors, strict=True)]
        return node.onnx("Resize", x, None, None, of_elements(lengths, (dims,), I64), **attributes)
    if len(factors) == dims:
        scales = node.constant(_array(factors), F32)
        return node.onnx("Resize", x, None, scales, None, **attributes)
    sizes = of_elements(node.sizes("output_size"), (dims,), I64)
    return node.onnx("Resize", x, None, None, sizes, **attributes)


def _mode(node: Node) -> dict[str, Any]:
    mode = "nearest" if "nearest" in node.op else "cubic" if "bicubic" in node.op else "linear"
    if mode == "nearest":
        is_exact = "exact" in node.op
        transformation = "half_pixel" if is_exact else "asymmetric"
        return {
            "mode": mode,
            "coordinate_transformation_mode": transformation,
            "nearest_mode": "round_prefer_ceil" if is_exact else "floor",
        }
    is_smooth = node.op.endswith("_aa")
    transformation = "align_corners" if node.flag("align_corners") else "pytorch_half_pixel"
    return {
        "mode": mode,
        "coordinate_transformation_mode": "half_pixel" if is_smooth else transformation,
        "antialias": int(is_smooth),
        "exclude_outside": int(is_smooth),
        "cubic_coeff_a": -0.75,
    }


def _array(factors: Sequence[float]) -> Any:
    import numpy as np

    return np.array(factors, np.float32)
