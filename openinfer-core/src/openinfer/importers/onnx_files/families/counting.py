"""Operators with as many results as there are elements, or boxes, of some kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from openinfer.dtypes import I64
from openinfer.importers.onnx_files.evaluating import MOST_FOLDED
from openinfer.importers.onnx_files.node import Node
from openinfer.importers.onnx_files.registry import translates
from openinfer.importers.onnx_files.values import known

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.values import Setting, Value


@translates("NonZero")
def _nonzero(node: Node) -> Value:
    x = node.given(0)
    if not x.rank:
        node.refuse("of a scalar")
    return node.call("transpose", node.call("nonzero", x))


@translates("Compress")
def _compress(node: Node) -> Value:
    x, condition, axis = node.given(0), node.given(1), node.get("axis")
    if condition.rank != 1:
        node.refuse(f"with a condition of {condition.rank} dims")
    if axis is None and x.rank != 1:
        x = node.call("reshape", x, shape=(-1,))
    place = 0 if axis is None else int(axis) % x.rank
    if condition.payload is not None:
        return node.call("gather", x, node.list(np.flatnonzero(condition.array()).tolist()), axis=place)
    if place == 0 and bool(condition.dims[0] == x.dims[0]):
        return node.call("masked_select", x, condition)
    places = node.call("nonzero", condition)
    chosen = node.reshaped(places, places.dims[:1])
    return node.call("gather", x, chosen, **({"axis": place} if place else {}))


@translates("Unique")
def _unique(node: Node) -> tuple[Value, ...]:
    x = node.given(0)
    if node.has("axis") and x.rank != 1:
        node.refuse("of slices along an axis")
    if x.payload is not None and x.payload.count <= MOST_FOLDED:
        return _unique_of_known(x, in_order=node.flag("sorted", True))
    flat = x if x.rank == 1 else node.call("reshape", x, shape=(-1,))
    values, _, counts, indices, inverse = node.emit.ops("unique", [flat], {})
    if not node.flag("sorted", True):
        order = node.call("argsort", indices, axis=0)
        values, counts, indices = (node.call("gather", value, order) for value in (values, counts, indices))
        inverse = node.call("gather", node.call("argsort", order, axis=0), inverse)
    return values, indices, inverse, counts


def _unique_of_known(x: Value, *, in_order: bool) -> tuple[Value, ...]:
    """Compute the results here: ONNX's evaluator sorts whatever `sorted` says, and takes rows for elements."""
    values, indices, inverse, counts = np.unique(
        x.array().reshape(-1), return_index=True, return_inverse=True, return_counts=True
    )
    if not in_order:
        order = np.argsort(indices)
        values, indices, counts = values[order], indices[order], counts[order]
        inverse = np.argsort(order)[inverse]
    numbers = (known(array.astype(np.int64), I64) for array in (indices, inverse, counts))
    return known(values, x.dtype), *numbers


@translates("NonMaxSuppression")
def _non_max_suppression(node: Node) -> Value:
    most, iou, score = (node.known_scalar(position) for position in (2, 3, 4))
    settings: dict[str, Setting] = {"max_output_boxes": int(most or 0), "iou_threshold": _shortest(iou or 0)}
    if score is not None:
        settings["score_threshold"] = _shortest(score)
    if node.flag("center_point_box"):
        settings["box_format"] = "center"
    return node.call("nms", node.given(0), node.given(1), **settings)


def _shortest(number: float) -> float:
    """Return the shortest number that rounds to an f32."""
    return float(str(np.float32(number)))
