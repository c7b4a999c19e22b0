"""Resampling of images."""

from __future__ import annotations

from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from openinfer.importers.onnx_files.resize_axes import ResizedAxis, coordinates
from openinfer.importers.onnx_files.sizes import is_number
from openinfer.importers.tflite_files.through_reals import on_codes, through_reals

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.source import Array
    from openinfer.importers.onnx_files.values import Value
    from openinfer.importers.tflite_files.node import Node


MOST_PLACES = 1 << 20
"""Rows or columns of the largest result."""


def _axes(node: Node) -> list[ResizedAxis]:
    """Return rows and columns of an image with channels first; none where their extents depend on sizes."""
    extents = [dim for dim in node.planes(0).dims[2:] if is_number(dim)]
    sizes = node.numbers(1)
    if len(sizes) != 2 or min(sizes) < 1 or max(sizes) > MOST_PLACES:
        node.refuse(f"the size {sizes}, expected rows and columns up to {MOST_PLACES}")
    if len(extents) != 2:
        return []
    return [
        ResizedAxis(axis, before, Fraction(after), Fraction(after, before))
        for axis, before, after in zip((2, 3), extents, sizes, strict=True)
    ]


def _transformation(node: Node) -> str:
    """Return the coordinates by the name that ONNX has for them."""
    if node.option("AlignCorners", False):
        return "align_corners"
    return "half_pixel" if node.option("HalfPixelCenters", False) else "asymmetric"


def _bilinear(node: Node) -> Value:
    transformation, axes = _transformation(node), _axes(node)
    planes = node.planes(0)
    if transformation == "half_pixel":
        return node.order.image(node.call("resize2d", planes, size=tuple(node.numbers(1)), mode="linear"))
    if not axes:
        node.refuse("the shape depends on sizes: fix them with --set")
    for axis in axes:
        planes = _interpolated(node, planes, axis, transformation)
    return node.order.image(planes)


def _interpolated(node: Node, planes: Value, axis: ResizedAxis, transformation: str) -> Value:
    at = coordinates(axis, transformation)
    ends = [np.clip(places, 0, axis.before - 1).astype(np.int64) for places in (at.floor(), at.ceil())]
    below, above = (node.call("gather", planes, node.constant(places), axis=axis.axis) for places in ends)
    shape = [-1 if number == axis.axis else 1 for number in range(4)]
    share = node.constant(at.parts().astype(np.float32).reshape(shape))
    rest = node.constant((1 - at.parts()).astype(np.float32).reshape(shape))
    return node.call("add", node.call("mul", below, rest), node.call("mul", above, share))


def _nearest(node: Node) -> Value:
    transformation, axes = _transformation(node), _axes(node)
    planes, size = node.planes(0), tuple(node.numbers(1))
    if not axes and transformation != "asymmetric":
        node.refuse("the shape depends on sizes: fix them with --set")
    places = [_nearest_places(axis, transformation) for axis in axes]
    plain = [np.arange(axis.after) * axis.before // axis.after for axis in axes]
    if all(map(np.array_equal, places, plain)):
        return node.order.image(node.call("resize2d", planes, size=size))
    for axis, own in zip(axes, places, strict=True):
        planes = node.call("gather", planes, node.constant(own), axis=axis.axis)
    return node.order.image(planes)


def _nearest_places(axis: ResizedAxis, transformation: str) -> Array:
    """Return the place of the original for each of the result, by TFLite's formula (``GetNearestNeighbor``) in f32."""
    is_aligned = transformation == "align_corners"
    one = np.float32(1)
    scale = np.float32(axis.before) / np.float32(axis.after)
    if is_aligned and axis.after > 1:
        scale = (np.float32(axis.before) - one) / np.float32(axis.after - 1)
    start = np.float32(0.5 if transformation == "half_pixel" else 0)
    at = (np.arange(axis.after, dtype=np.float32) + start) * scale
    # TFLite rounds halves away from zero, and coordinates are not negative.
    places = np.floor(at + np.float32(0.5)) if is_aligned else np.floor(at)
    return np.clip(places, 0, axis.before - 1).astype(np.int64)


TRANSLATORS = MappingProxyType(
    {"RESIZE_BILINEAR": through_reals(_bilinear), "RESIZE_NEAREST_NEIGHBOR": on_codes(_nearest)}
)
