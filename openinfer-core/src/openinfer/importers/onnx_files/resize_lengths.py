"""The lengths that a Resize has: read from its scales or sizes, axes, region and policy."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from openinfer.importers.onnx_files.resize_axes import ResizedAxis
from openinfer.importers.onnx_files.sizes import is_number
from openinfer.ops.catalog.resizing import scaled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.dims import Size
    from openinfer.importers.onnx_files.node import Node


MOST_PLACES = 1 << 26
"""Places of the longest axis of a result: tables of places are made while the model is imported."""


def axes_of(node: Node) -> list[int]:
    """Return the axes that scales, sizes and the region are for.

    Raises:
        UnsupportedNodeError: x does not have one of them.
    """
    rank = node.given(0).rank
    axes = [int(axis) for axis in node.get("axes", range(rank))]
    if not all(-rank <= axis < rank for axis in axes):
        node.refuse(f"axes={axes} of an input of rank {rank}")
    return [axis % rank for axis in axes]


def scales_of(node: Node) -> list[float] | None:
    """Return the scale of each axis, an f32; None where sizes are given.

    Raises:
        UnsupportedNodeError: there is not one for each axis, or one is not a number above 0.
    """
    if node.has("scales"):
        scales = [float(np.float32(scale)) for scale in node.get("scales")]
    else:
        array = node.known_array(1 if node.op == "Upsample" or node.opset < 11 else 2)
        if array is None or not array.size:
            return None
        scales = [float(scale) for scale in array.reshape(-1)]
    _check_count(node, "scales", scales)
    if not all(math.isfinite(scale) and scale > 0 for scale in scales):
        node.refuse(f"scales={scales}: expected numbers above 0")
    return scales


def resized_axes(node: Node, transformation: str) -> list[ResizedAxis]:
    """Return the axes that are resized, each with its lengths.

    Axes whose scale is 1, or whose size is what it was, are left out, unless a region selects a part of them.

    Raises:
        UnsupportedNodeError: inputs contradict one another, a length depends on sizes or is too large, or the region is
            not finite.
        NeedsValueError: scales, sizes or the region are not known.
    """
    resized = _resized_axes(node, axes_of(node), scales_of(node), transformation)
    for axis in resized:
        if axis.after > MOST_PLACES:
            node.refuse(f"{float(axis.after):.6g} places along axis {axis.axis}: at most {MOST_PLACES} can be imported")
    return resized


def _resized_axes(
    node: Node, axes: Sequence[int], scales: Sequence[float] | None, transformation: str
) -> list[ResizedAxis]:
    regions = (
        _regions(node, len(axes))
        if transformation == "tf_crop_and_resize"
        else [(Fraction(0), Fraction(1))] * len(axes)
    )
    if scales is not None:
        ratios = [Fraction(scale) for scale in scales]
        return [
            ResizedAxis(axis, before, Fraction(scaled(before, float(ratio))), ratio, region)
            for axis, ratio, region in zip(axes, ratios, regions, strict=True)
            if (ratio, region) != (1, (0, 1))
            for before in [_length(node, node.given(0).dims[axis])]
        ]
    return _of_sizes(node, axes, regions)


def _of_sizes(node: Node, axes: Sequence[int], regions: Sequence[tuple[Fraction, Fraction]]) -> list[ResizedAxis]:
    x = node.given(0)
    sizes = (node.integers(3) if node.op == "Resize" else None) or ()
    _check_count(node, "sizes", sizes)
    policy = str(node.get("keep_aspect_ratio_policy", "stretch"))
    kept = {axis for axis, size in zip(axes, sizes, strict=True) if x.dims[axis] == size}
    resized: list[ResizedAxis] = []
    for axis, size, region in zip(axes, sizes, regions, strict=True):
        if axis in kept and region == (0, 1) and policy == "stretch":
            continue
        before, after = _length(node, x.dims[axis]), _length(node, size)
        if after < 0 or (after and not before):
            node.refuse(f"size {after} of axis {axis}, which has {before} places")
        resized.append(ResizedAxis(axis, before, Fraction(after), Fraction(after, before or 1), region))
    return resized if policy == "stretch" else _of_one_scale(node, resized, policy)


def _of_one_scale(node: Node, axes: Sequence[ResizedAxis], policy: str) -> list[ResizedAxis]:
    """Return axes that are all resized by the least or the greatest of their scales.

    Lengths are those of ONNX Runtime, whose scale and product are f32; halves are rounded up.
    """
    if policy not in ("not_larger", "not_smaller"):
        node.refuse(f"keep_aspect_ratio_policy={policy}")
    scale = (min if policy == "not_larger" else max)((axis.scale for axis in axes), default=Fraction(1))
    products = [np.float32(float(scale)) * np.float32(axis.before) for axis in axes]
    lengths = [math.floor(float(product) + 0.5) for product in products]
    return [
        ResizedAxis(axis.axis, axis.before, Fraction(length), scale, axis.region)
        for axis, length in zip(axes, lengths, strict=True)
    ]


def _length(node: Node, extent: Size) -> int:
    if not is_number(extent):
        node.refuse_sizes("the length of an axis that is resized", extent)
    return extent


def _regions(node: Node, count: int) -> list[tuple[Fraction, Fraction]]:
    roi = node.known_array(1)
    if roi is None or roi.size != 2 * count:
        found = "none" if roi is None else f"{roi.size} numbers"
        node.refuse(f"tf_crop_and_resize: expected a region of {2 * count} numbers, found {found}")
    if not np.isfinite(roi).all():
        node.refuse(f"roi={roi.reshape(-1).tolist()}: expected numbers")
    bounds = [Fraction(float(bound)) for bound in roi.reshape(-1)]
    return list(zip(bounds[:count], bounds[count:], strict=True))


def _check_count(node: Node, name: str, numbers: Sequence[float | Size]) -> None:
    count = len(axes_of(node))
    if len(numbers) != count:
        node.refuse(f"{len(numbers)} {name}, expected one for each of {count} axes")
