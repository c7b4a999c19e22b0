"""Operators with as many results as there are elements, or boxes, of some kind."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from openinfer.dtypes import BOOL, I64, U8
from openinfer.importers.onnx_files.evaluating import MOST_FOLDED
from openinfer.importers.onnx_files.loops import Carried, Loop
from openinfer.importers.onnx_files.node import Node
from openinfer.importers.onnx_files.registry import translates
from openinfer.importers.onnx_files.values import Value, known

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.values import Setting


@translates("NonZero")
def _nonzero(node: Node) -> Value:
    x = node.given(0)
    if not x.rank:
        node.refuse("its input is a scalar, expected at least one dim")
    return node.call("transpose", node.call("nonzero", x))


@translates("Compress")
def _compress(node: Node) -> Value:
    x, condition, axis = node.given(0), node.given(1), node.get("axis")
    if condition.rank != 1:
        node.refuse(f"a condition of {condition.rank} dims, expected 1")
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
    x, axis = node.given(0), node.get("axis")
    if x.payload is not None and x.payload.count <= MOST_FOLDED:
        return _unique_of_known(x, None if axis is None else int(axis), in_order=node.flag("sorted", True))
    if axis is None and x.rank != 1:
        x = node.call("reshape", x, shape=(-1,))
    dim = 0 if axis is None else int(axis) % x.rank
    elements = x if x.dtype is not BOOL else node.call("cast", x, to=U8)
    keys = elements if x.rank == 1 else _ranks_of_slices(node, elements, dim)
    values, _, counts, indices, inverse = node.emit.ops("unique", [keys], {})
    if not node.flag("sorted", True):
        order = node.call("argsort", indices, axis=0)
        values, counts, indices = (node.call("gather", value, order) for value in (values, counts, indices))
        inverse = node.call("gather", node.call("argsort", order, axis=0), inverse)
    if keys is not x:
        values = node.call("gather", x, indices, **({"axis": dim} if dim else {}))
    return values, indices, inverse, counts


def _unique_of_known(x: Value, axis: int | None, *, in_order: bool) -> tuple[Value, ...]:
    """Compute the results here: ONNX's evaluator sorts whatever `sorted` says, and takes rows for elements."""
    values, indices, inverse, counts = np.unique(
        x.array(), return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    if not in_order:
        order = np.argsort(indices)
        values, indices, counts = np.take(values, order, axis), indices[order], counts[order]
        inverse = np.argsort(order)[inverse]
    numbers = (known(array.reshape(-1).astype(np.int64), I64) for array in (indices, inverse, counts))
    return known(values, x.dtype), *numbers


def _ranks_of_slices(node: Node, x: Value, axis: int) -> Value:
    """Return integers that compare as the slices of x along an axis do, element by element.

    Each iteration ranks what slices have up to one more element, from their rank so far and that of the element.
    """
    count = x.dims[axis]
    perm = (axis, *(dim for dim in range(x.rank) if dim != axis))
    rows = x if axis == 0 else node.call("transpose", x, perm=perm)
    length = math.prod(rows.dims[1:])
    rows = node.reshaped(rows, (count, length))
    start = node.call("expand", node.number(0, I64), shape=(count,))
    if length == 0:
        return start
    taken, ranks = Value("", I64, (count,)), Value("", I64, (count,))
    with node.emit.body(length) as (index, calls):
        column = node.call("select", rows, axis=1, index=index)
        _, number, _, _, own = node.emit.ops("unique", [column], {})
        key = node.call("add", node.call("mul", taken, number), own)
        *_, written = node.emit.ops("unique", [key], {})
    carried = [Carried(start, taken, written, ranks, "rank")]
    node.emit.loop(Loop("elements", str(index), calls, length, carried, title="Unique, slices by their elements"))
    return ranks


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
