"""Reductions, scans and order along axes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from openinfer.dtypes import BOOL, I64
from openinfer.importers.onnx_files.families.elementwise import cast
from openinfer.importers.onnx_files.node import Node
from openinfer.importers.onnx_files.registry import translates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.dtypes import DType
    from openinfer.importers.onnx_files.values import Setting, Value

REDUCTIONS = {
    "ReduceSum": "sum_axis",
    "ReduceMean": "mean_axis",
    "ReduceProd": "prod_axis",
    "ReduceMax": "max_axis",
    "ReduceMin": "min_axis",
    "ReduceL2": "l2_axis",
    "ReduceLogSumExp": "logsumexp_axis",
    "ReduceSumSquare": "sum_axis",
    "ReduceLogSum": "sum_axis",
    "ReduceL1": "sum_axis",
}


@translates(*REDUCTIONS)
def _reduce(node: Node) -> Value:
    x = node.given(0)
    axes = node.get("axes") if node.input(1) is None else node.plain_integers(1)
    if not axes and node.flag("noop_with_empty_axes"):
        return _of_each(node, x)
    settings: dict[str, Setting] = {"axes": tuple(axes) if axes else tuple(range(x.rank))}
    if x.rank == 0:
        return _of_each(node, x)
    if node.flag("keepdims", True):
        settings["keepdims"] = True
    op = REDUCTIONS[node.op]
    if op in ("max_axis", "min_axis"):
        return _extreme(node, x, op, settings, axes or range(x.rank))
    before = {"ReduceSumSquare": "square", "ReduceL1": "abs"}.get(node.op)
    summed = node.call(op, x if before is None else node.call(before, x), **settings)
    return node.call("log", summed) if node.op == "ReduceLogSum" else summed


def _of_each(node: Node, x: Value) -> Value:
    """Return what a reduction over no axis does to each element."""
    op = {
        "ReduceSumSquare": "square",
        "ReduceL1": "abs",
        "ReduceL2": "abs",
        "ReduceLogSum": "log",
    }.get(node.op, "identity")
    return node.call(op, x)


def _extreme(node: Node, x: Value, op: str, settings: dict[str, Setting], axes: Sequence[int]) -> Value:
    if x.dtype is BOOL:
        return node.call("any_axis" if op == "max_axis" else "all_axis", x, **settings)
    if any(x.dims[axis] == 0 for axis in axes):
        # ONNX has the identity of the operation for slices without elements, where the operator has an error.
        identity = _least(x.dtype) if op == "max_axis" else _greatest(x.dtype)
        return node.call("fill", node.call("sum_axis", x, **settings), value=identity)
    return node.call(op, x, **settings, **({"nan": "propagate"} if x.dtype.is_float else {}))


def _least(dtype: DType) -> float:
    return -math.inf if dtype.minimum is None else dtype.minimum


def _greatest(dtype: DType) -> float:
    return math.inf if dtype.maximum is None else dtype.maximum


@translates("ArgMax", "ArgMin")
def _arg(node: Node) -> Value:
    x = node.given(0)
    settings: dict[str, Setting] = {"axis": int(node.get("axis", 0))}
    if node.flag("keepdims", True):
        settings["keepdims"] = True
    if node.flag("select_last_index"):
        settings["select_first"] = False
    if x.dtype.is_float:
        settings["nan"] = "propagate"
    return node.call("argmax_axis" if node.op == "ArgMax" else "argmin_axis", x, **settings)


@translates("CumSum")
def _cumsum(node: Node) -> Value:
    axis = node.plain_integers(1)
    flags: dict[str, Setting] = {name: True for name in ("exclusive", "reverse") if node.flag(name)}
    return node.call("cumsum", node.given(0), axis=axis[0] if axis else 0, **flags)


@translates("TopK")
def _topk(node: Node) -> tuple[Value, ...]:
    found = node.integers(1)
    k = int(node.get("k")) if found is None else found[0]
    settings: dict[str, Setting] = {"k": k, "axis": int(node.get("axis", -1))}
    if not node.flag("largest", True):
        settings["largest"] = False
    return node.emit.ops("topk", [node.given(0)], settings)


@translates("Hardmax")
def _hardmax(node: Node) -> Value:
    x, axis = node.given(0), int(node.get("axis", -1 if node.opset >= 13 else 1))
    if node.opset < 13 and axis not in (-1, x.rank - 1):
        node.refuse(f"axis={axis} before opset 13, where all dims from it on are one: export with opset 13 or later")
    if x.dims[axis] == 0:
        return node.call("identity", x)
    places = node.call("argmax_axis", x, axis=axis)
    return node.emit.typed("one_hot", x.dtype, x.dims, places, depth=x.dims[axis], axis=axis)


@translates("GlobalLpPool")
def _global_lp_pool(node: Node) -> Value:
    if int(node.get("p", 2)) != 2:
        node.refuse(f"p={node.get('p')}, expected 2")
    x = node.given(0)
    return node.call("l2_axis", x, axes=tuple(range(2, x.rank)), keepdims=True)


@translates("LpNormalization")
def _lp_normalization(node: Node) -> Value:
    axis = int(node.get("axis", -1))
    if int(node.get("p", 2)) == 2:
        return node.call("l2_norm", node.given(0), axis=axis)
    total = node.call("sum_axis", node.call("abs", node.given(0)), axes=(axis,), keepdims=True)
    zero, one = node.number(0, total.dtype), node.number(1, total.dtype)
    safe = node.call("where", node.call("eq", total, zero), one, total)
    return node.call("div", node.given(0), safe)


@translates("OneHot")
def _one_hot(node: Node) -> Value:
    indices, values, pair = node.given(0), node.given(2), node.known_array(2)
    depth = (int(node.known_scalar(1) or 0),) if node.given(1).dtype.is_float else node.integers(1)
    if pair is None or depth is None:
        node.refuse("depth or values are left out")
    if indices.dtype.is_float:
        indices = cast(node, indices, I64)
    off, on = (element.item() for element in pair.reshape(-1))
    if values.dtype is BOOL:
        off, on = bool(off), bool(on)
    axis = int(node.get("axis", -1))
    place = axis + indices.rank + 1 if axis < 0 else axis
    dims = (*indices.dims[:place], *depth[:1], *indices.dims[place:])
    settings: dict[str, Setting] = {"depth": depth[0], "on": on, "off": off, "axis": axis}
    return node.emit.typed("one_hot", values.dtype, dims, indices, **settings)
