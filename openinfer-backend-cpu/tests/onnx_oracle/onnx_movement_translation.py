"""Nodes that move elements, in OpenInfer."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx_translation import Call, Node, UntranslatableError, declared_of, number_of, of


@of("Concat")
def _concat(node: Node) -> Call:
    return Call("concat", node.inputs, {"axis": node.get("axis")})


@of("DepthToSpace", "SpaceToDepth")
def _depth(node: Node) -> Call:
    settings: dict[str, Any] = {"block": node.get("blocksize")}
    if node.op == "DepthToSpace":
        return Call("depth_to_space", node.inputs, {**settings, "mode": node.get("mode", "DCR")})
    node.require("mode", "DCR")
    return Call("space_to_depth", node.inputs, settings)


@of("Expand")
def _expand(node: Node) -> Call:
    return Call("expand", node.inputs[:1], {"shape": node.given(1).tolist()})


@of("Reshape")
def _reshape(node: Node) -> Call:
    shape = node.given(1).tolist()
    if node.get("allowzero", 0) and 0 in shape:
        raise UntranslatableError("Reshape where 0 is a size")
    return Call("reshape", node.inputs[:1], {"shape": shape})


@of("Slice")
def _slice(node: Node) -> Call:
    names = ("starts", "ends", "axes", "steps")
    given = {name: node.input(position) for position, name in enumerate(names, start=1)}
    return Call("slice", node.inputs[:1], {name: list_.tolist() for name, list_ in given.items() if list_ is not None})


@of("Split")
def _split(node: Node) -> Call:
    sizes = node.input(1)
    parts = len(node.outputs) if sizes is None else None
    settings = {"parts": parts} if sizes is None else {"sizes": sizes.tolist()}
    return Call("split", node.inputs[:1], {"axis": node.get("axis", 0), **settings})


@of("Squeeze", "Unsqueeze")
def _squeeze(node: Node) -> Call:
    axes = node.input(1)
    return Call(node.op.lower(), node.inputs[:1], {} if axes is None else {"axes": axes.tolist()})


@of("Tile")
def _tile(node: Node) -> Call:
    return Call("tile", node.inputs[:1], {"repeats": node.given(1).tolist()})


@of("Transpose")
def _transpose(node: Node) -> Call:
    perm = node.get("perm")
    return Call("transpose", node.inputs, {} if perm is None else {"perm": perm})


@of("Trilu")
def _trilu(node: Node) -> Call:
    k = node.input(1)
    return Call("triu" if node.get("upper", 1) else "tril", node.inputs[:1], {"k": 0 if k is None else int(k)})


@of("Pad")
def _pad(node: Node) -> Call:
    rank, value, axes = node.given(0).ndim, node.input(2), node.input(3)
    chosen = range(rank) if axes is None else [int(axis) % rank for axis in axes]
    pads = [0] * (2 * rank)
    begin, end = np.split(node.given(1), 2)
    for axis, before, after in zip(chosen, begin, end, strict=True):
        pads[axis], pads[rank + axis] = int(before), int(after)
    settings: dict[str, Any] = {"pads": pads, "mode": node.get("mode", "constant")}
    return Call("pad", node.inputs[:1], settings if value is None else {**settings, "value": number_of(value)})


@of("OneHot")
def _one_hot(node: Node) -> Call:
    values, indices = node.given(2), node.given(0)
    if indices.dtype.kind == "f":
        raise UntranslatableError("OneHot of floats")
    settings = {"depth": int(node.given(1)), "on": number_of(values[1]), "off": number_of(values[0])}
    return Call("one_hot", [indices], {**settings, "axis": node.get("axis", -1)}, declared_of(node))


@of("ConstantOfShape")
def _constant_of_shape(node: Node) -> Call:
    value = node.get("value", np.zeros(1, np.float32))
    return Call("fill", [np.zeros(node.given(0).tolist(), value.dtype)], {"value": number_of(value)})


@of("Range")
def _range(node: Node) -> Call:
    start, limit, step = (number_of(each) for each in node.inputs if each is not None)
    return Call("range", [], {"start": start, "limit": limit, "step": step}, declared_of(node))
