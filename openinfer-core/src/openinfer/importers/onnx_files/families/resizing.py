"""Resize in every mode: with the operator of the catalogue if the modes agree, else axis by axis.

Resizing along an axis is linear, so that ONNX's reference evaluator yields its matrix when it resizes unit vectors:
rows that each have a single 1 choose places, others are a product of matrices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.importers.onnx_files.families.elementwise import short_float
from openinfer.importers.onnx_files.node import Node
from openinfer.importers.onnx_files.package import onnx_module
from openinfer.importers.onnx_files.registry import translates

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.importers.onnx_files.source import Array
    from openinfer.importers.onnx_files.values import Value

MOST_PLACES = 1 << 16
"""Elements of the largest matrix of an axis; the reference evaluator computes them one by one."""


@translates("Resize", "Upsample")
def _resize(node: Node) -> Value:
    x = node.given(0)
    settings = _settings(node)
    scales, sizes = _scales(node), node.plain_integers(3) if node.op == "Resize" else None
    axes: list[int] = [int(axis) % x.rank for axis in node.get("axes", range(x.rank))]
    if settings["keep_aspect_ratio_policy"] != "stretch":
        node.refuse(f"keep_aspect_ratio_policy={settings['keep_aspect_ratio_policy']}")
    native = _native(node, x, settings, scales, sizes, axes)
    if native is not None:
        return native
    shape = node.shape(0)
    found = x
    for position, axis in enumerate(axes):
        scale = None if scales is None else scales[position]
        size = None if sizes is None else sizes[position]
        wanted = size if size is not None else int(np.floor(np.float32(scale) * np.float32(shape[axis])))
        if wanted == shape[axis] and scale in (None, 1.0) and _roi(node, position) == (0.0, 1.0):
            continue
        found = _along(node, found, axis, _matrix(node, settings, shape[axis], wanted, scale, _roi(node, position)))
    return node.call("identity", found) if found is x else found


def _settings(node: Node) -> dict[str, Any]:
    """Return the attributes, with those that older opsets do not have."""
    if node.op == "Upsample" or node.opset < 11:
        place = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        return {"mode": node.get("mode", "nearest"), "keep_aspect_ratio_policy": "stretch", **place}
    defaults = {
        "mode": "nearest",
        "coordinate_transformation_mode": "half_pixel",
        "nearest_mode": "round_prefer_floor",
        "cubic_coeff_a": -0.75,
        "exclude_outside": 0,
        "antialias": 0,
        "extrapolation_value": 0.0,
        "keep_aspect_ratio_policy": "stretch",
    }
    found = {name: node.get(name, default) for name, default in defaults.items()}
    if found["extrapolation_value"] and found["coordinate_transformation_mode"] == "tf_crop_and_resize":
        node.refuse(f"extrapolation_value={found['extrapolation_value']}")
    return found


def _scales(node: Node) -> list[float] | None:
    if node.has("scales"):
        return [float(scale) for scale in node.get("scales")]
    position = 1 if node.op == "Upsample" or node.opset < 11 else 2
    array = node.known_array(position)
    return None if array is None or not array.size else [float(scale) for scale in array]


def _roi(node: Node, position: int) -> tuple[float, float]:
    if node.get("coordinate_transformation_mode") != "tf_crop_and_resize":
        return (0.0, 1.0)
    roi = node.known_array(1)
    if roi is None:
        node.refuse("tf_crop_and_resize without a region")
    return float(roi[position]), float(roi[len(roi) // 2 + position])


def _native(
    node: Node,
    x: Value,
    settings: Mapping[str, Any],
    scales: list[float] | None,
    sizes: list[int] | None,
    axes: list[int],
) -> Value | None:
    """Return a call of resize2d, where that is the same."""
    places = (settings["mode"], settings["coordinate_transformation_mode"])
    is_nearest = places == ("nearest", "asymmetric") and settings["nearest_mode"] == "floor"
    is_linear = places == ("linear", "half_pixel") and not settings.get("antialias") and x.dtype.is_float
    if x.rank != 4 or not (is_nearest or is_linear):
        return None
    mode = {"mode": "linear"} if is_linear else {}
    if sizes is not None:
        by_axis = dict(zip(axes, sizes, strict=True))
        kept = x.shape is not None and all(by_axis.get(axis, x.shape[axis]) == x.shape[axis] for axis in (0, 1))
        if not kept or x.shape is None:
            return None
        return node.call("resize2d", x, size=tuple(by_axis.get(axis, x.shape[axis]) for axis in (2, 3)), **mode)
    factors = dict(zip(axes, scales or [], strict=True))
    if any(factors.get(axis, 1.0) != 1.0 for axis in (0, 1)):
        return None
    pair = [factors.get(axis, 1.0) for axis in (2, 3)]
    # Sizes that are rounded down make places that are not those of the scales.
    if not all(scale.is_integer() for scale in pair):
        return None
    scale = short_float(pair[0]) if pair[0] == pair[1] else tuple(map(short_float, pair))
    return node.call("resize2d", x, scale=scale, **mode)


def _matrix(
    node: Node, settings: Mapping[str, Any], before: int, after: int, scale: float | None, roi: tuple[float, float]
) -> Array:
    """Return what resizing does to a row: [before, after]."""
    if before * max(before, after) > MOST_PLACES:
        node.refuse(f"from {before} to {after} places in a mode that the operator resize2d does not have")
    onnx, reference = onnx_module(), onnx_module("onnx.reference")
    given = {name: value for name, value in settings.items() if name != "keep_aspect_ratio_policy"}
    inputs = ["x", "roi", "" if scale is None else "scales", "sizes" if scale is None else ""]
    arrays: dict[str, Any] = {
        "x": np.eye(before, dtype=np.float32),
        "roi": np.array([0, roi[0], 1, roi[1]], np.float32),
    }
    arrays |= {"sizes": np.array([before, after])} if scale is None else {"scales": np.array([1, scale], np.float32)}
    proto = onnx.helper.make_node("Resize", inputs, ["y"], **given)
    infos = [
        onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), None)
        for name, array in arrays.items()
    ]
    result = onnx.helper.make_tensor_value_info("y", 1, None)
    graph = onnx.helper.make_graph([proto], "resize", infos, [result])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 19)])
    return np.asarray(reference.ReferenceEvaluator(model).run(None, arrays)[0])


def _along(node: Node, x: Value, axis: int, matrix: Array) -> Value:
    is_choice = bool(np.all((matrix == 0) | (matrix == 1)) and np.all(matrix.sum(0) == 1))
    if is_choice:
        places = np.argmax(matrix, 0)
        return node.call("gather", x, node.list([int(place) for place in places]), axis=axis)
    if not x.dtype.is_float:
        node.refuse("of integers, but to the nearest")
    weights = node.emit.constant(matrix, x.dtype)
    if axis == x.rank - 1:
        return node.call("matmul", x, weights)
    perm = [*(other for other in range(x.rank) if other != axis), axis]
    back = [perm.index(place) for place in range(x.rank)]
    product = node.call("matmul", node.call("transpose", x, perm=tuple(perm)), weights)
    return node.call("transpose", product, perm=tuple(back))
