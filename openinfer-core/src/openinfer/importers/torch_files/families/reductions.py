"""Reductions, scans and order along dims."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import BOOL, F32, I64
from openinfer.importers.onnx_files.sizes import is_number
from openinfer.importers.torch_files.families.elementwise import truth
from openinfer.importers.torch_files.node import Node
from openinfer.importers.torch_files.registry import translates

if TYPE_CHECKING:
    from openinfer.dims import Size
    from openinfer.importers.onnx_files.values import Setting, Value


def _over(node: Node, name: str = "dim") -> dict[str, Setting]:
    settings: dict[str, Setting] = {"axes": node.axes(name)}
    return settings | ({"keepdims": True} if node.flag("keepdim") else {})


@translates("sum", "sum.dim_IntList", "mean", "mean.dim", "prod", "prod.dim_int", "logsumexp")
def _reduce(node: Node) -> Value:
    (x,) = node.in_result_type("self")
    if not x.rank:
        return node.call("identity", x)
    return node.call(f"{node.op}_axis", x, **_over(node))


@translates("amax", "amin", "max", "min")
def _extreme(node: Node) -> Value:
    x = node.tensor()
    if not x.rank:
        return node.call("identity", x)
    op = "max_axis" if "max" in node.op else "min_axis"
    if x.dtype is BOOL:
        return node.call("any_axis" if op == "max_axis" else "all_axis", x, **_over(node))
    return node.call(op, x, **_over(node), **({"nan": "propagate"} if x.dtype.is_float else {}))


@translates("max.dim", "min.dim")
def _extreme_with_place(node: Node) -> tuple[Value, ...]:
    return _extreme(node), _place(node, f"arg{node.op}_axis")


@translates("argmax", "argmin")
def _arg(node: Node) -> Value:
    return _place(node, f"{node.op}_axis")


def _place(node: Node, op: str) -> Value:
    x = node.tensor()
    if x.dtype is BOOL:
        x = node.converted(x, F32)
    nan: dict[str, Setting] = {"nan": "propagate"} if x.dtype.is_float else {}
    if node.get("dim") is None or not x.rank:
        made = node.call(op, node.reshaped(x, (-1,)), axis=0, **nan)
        return node.reshaped(made, (1,) * x.rank) if node.flag("keepdim") else made
    return node.call(op, x, axis=node.axis(), **({"keepdims": True} if node.flag("keepdim") else {}), **nan)


@translates("any", "any.dim", "any.dims", "all", "all.dim", "all.dims")
def _whether(node: Node) -> Value:
    x = truth(node, node.tensor())
    return node.call(f"{node.op}_axis", x, **_over(node)) if x.rank else node.call("identity", x)


@translates("var.correction", "std.correction", "var.dim", "std.dim", "var_mean.correction", "std_mean.correction")
def _variance(node: Node) -> tuple[Value, ...] | Value:
    (x,) = node.in_result_type("self")
    axes = node.axes()
    mean = node.call("mean_axis", x, axes=axes, keepdims=True)
    centred = node.call("square", node.call("sub", x, mean))
    if node.overload == "dim":
        correction = float(node.flag("unbiased"))
    else:
        correction = 1.0 if node.get("correction") is None else float(node.real("correction"))
    made = _mean_of_squares(node, centred, axes, correction)
    if node.op.startswith("std"):
        made = node.call("sqrt", made)
    if not node.op.endswith("mean"):
        return made
    return made, mean if node.flag("keepdim") else node.call("squeeze", mean, axes=axes)


def _mean_of_squares(node: Node, squares: Value, axes: tuple[int, ...], correction: float) -> Value:
    """Return a sum over the number of elements less a correction."""
    if not correction:
        return node.call("mean_axis", squares, **_over(node))
    count: Size = 1
    for axis in axes:
        count = count * squares.dims[axis]
    if not is_number(count) and not correction.is_integer():
        node.refuse(f"correction={correction:g} of a number of elements that depends on sizes")
    divisor = count - correction if is_number(count) else count - int(correction)
    return node.call("div", node.call("sum_axis", squares, **_over(node)), node.of_type(divisor, squares.dtype))


@translates("cumsum")
def _cumsum(node: Node) -> Value:
    (x,) = node.in_result_type("self")
    return node.call("cumsum", x, axis=node.axis()) if x.rank else node.call("identity", x)


@translates("topk")
def _topk(node: Node) -> tuple[Value, ...]:
    settings: dict[str, Setting] = {"k": node.size("k"), "axis": node.axis()}
    return node.emit.ops("topk", [node.tensor()], settings | ({} if node.flag("largest") else {"largest": False}))


@translates("sort", "sort.stable", "argsort", "argsort.stable")
def _sort(node: Node) -> tuple[Value, ...] | Value:
    x, axis = node.tensor(), node.axis()
    settings: dict[str, Setting] = {"axis": axis}
    if node.flag("descending"):
        settings["descending"] = True
    places = node.call("argsort", x, **settings)
    if node.op == "argsort":
        return places
    return node.call("gather_elements", x, places, axis=axis), places


@translates("count_nonzero", "count_nonzero.dim_IntList")
def _count_nonzero(node: Node) -> Value:
    return node.call("sum_axis", node.converted(truth(node, node.tensor()), I64), axes=node.axes())
