"""Transposed convolution."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from openinfer.importers.onnx_files.sizes import is_number
from openinfer.importers.tflite_files.families.windows import (
    PADDINGS,
    integer_products,
    per_plane,
    real_weight,
    scales_of_products,
    with_bias,
)
from openinfer.importers.tflite_files.image_order import permuted
from openinfer.importers.tflite_files.requantising import activated, requantised

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.importers.onnx_files.values import Setting, Value
    from openinfer.importers.tflite_files.node import Node


def _transpose_conv(given: Node) -> Value:
    """The gradient of a convolution whose result the third input is, in the shape that the first names."""
    wanted = given.numbers(0)
    # From here on the inputs are those of a convolution.
    order = (2, 1, 3)[: len(given.inputs) - 1]
    node = replace(given, inputs=tuple(map(given.input, order)), tensors=tuple(given.tensors[n] for n in order))
    x, w, bias = node.planes(0), node.given(1), node.input(2)
    if w.rank != 4 or len(wanted) != 4:
        node.refuse("of other than 4 dims")
    w = node.part(w, "weight")
    kernel, extents = w.dims[1:3], x.dims[2:]
    if not all(map(is_number, (*kernel, *extents))):
        node.refuse("the shape depends on sizes: fix them with --set")
    strides = [int(node.option(name, 1)) for name in ("StrideH", "StrideW")]
    if min(strides) < 1:
        node.refuse(f"stride is {strides}, expected at least 1")
    before: list[int] = []
    after: list[int] = []
    for size, length, stride, full in zip(extents, kernel, strides, wanted[1:3], strict=True):
        whole = (int(size) - 1) * stride + int(length)
        cut = max(whole - full, 0)
        before.append(cut // 2 if node.choice("Padding", PADDINGS) != "valid" else 0)
        after.append(whole - full - before[-1])
    bias = None if bias is None else node.part(bias, "bias")
    if node.is_quantised:
        return node.order.image(_of_codes(node, x, w, bias, strides, [*before, *after]))
    settings: dict[str, Setting] = {"stride": tuple(strides), "padding": (*before, *(max(cut, 0) for cut in after))}
    settings |= {"output_padding": tuple(max(-cut, 0) for cut in after)} if min(after) < 0 else {}
    weight = real_weight(node, w, (3, 0, 1, 2))
    return node.order.image(activated(node, node.call("conv_transpose2d", x, weight, bias, **settings)))


def _of_codes(node: Node, x: Value, w: Value, bias: Value | None, strides: Sequence[int], cuts: Sequence[int]) -> Value:
    """Return it as a convolution of codes that have zero points between them with the weights from their ends."""
    margins = tuple(int(length) - 1 - cut for length, cut in zip((*w.dims[1:3], *w.dims[1:3]), cuts, strict=True))
    if min(margins) < 0:
        node.refuse(f"a result that is smaller than what remains without the margins {list(cuts)}")
    flipped = _flipped(node, permuted(node.emit, w, (0, 3, 1, 2)))
    total = integer_products(node, "conv_integer", _spread(node, x, strides), flipped, padding=margins)
    if bias is not None:
        total = with_bias(node, total, per_plane(node, bias))
    scale = scales_of_products(node)
    return requantised(node, total, scale.reshape(-1, 1, 1) if scale.size > 1 else scale.reshape(()))


def _flipped(node: Node, w: Value) -> Value:
    if w.payload is None:
        return node.call("flip", w, axes=(2, 3))
    return node.constant(np.ascontiguousarray(w.array()[..., ::-1, ::-1]), w.name)


def _spread(node: Node, x: Value, strides: Sequence[int]) -> Value:
    """Return planes with codes of zero between their rows and columns."""
    if max(strides) == 1:
        return x
    zero = int(node.parameters(node.tensor(0)).zero[0])
    (batch, channels, *extents), (down, across) = x.dims, strides
    rows, columns = (int(extent) if is_number(extent) else 0 for extent in extents)
    apart = node.call("reshape", x, shape=(batch, channels, rows, 1, columns, 1))
    margins = (*[0] * 9, down - 1, 0, across - 1)
    filled = node.call("pad", apart, pads=margins, **({"value": zero} if zero else {}))
    whole = node.call("reshape", filled, shape=(batch, channels, rows * down, columns * across))
    ends = (rows * down - down + 1, columns * across - across + 1)
    return node.call("slice", whole, starts=(0, 0), ends=ends, axes=(2, 3))


TRANSLATORS = MappingProxyType({"TRANSPOSE_CONV": _transpose_conv})
