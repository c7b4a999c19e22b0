"""Operators that make tensors of one number, sequences and identities."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from openinfer.dims import Dim
from openinfer.importers.onnx_files.sizes import is_number
from openinfer.importers.torch_files.node import Node
from openinfer.importers.torch_files.registry import translates

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.values import Value


@translates("full", "full_like", "new_full", "scalar_tensor")
def _full(node: Node) -> Value:
    name = "s" if node.op == "scalar_tensor" else "fill_value"
    number = node.of_type(node.operand(name), node.dtype)
    return _filled(node, number)


@translates("fill.Scalar", "fill.Tensor")
def _fill(node: Node) -> Value:
    return _filled(node, node.of_type(node.operand("value"), node.dtype))


def _filled(node: Node, number: Value) -> Value:
    """Return a number all over the shape of the result."""
    if node.get("size") is not None:
        shape = node.sizes("size")
    else:
        shape = () if node.op == "scalar_tensor" else node.tensor().dims
    return node.call("expand", number, shape=shape) if shape else number


@translates("zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "empty.memory_format", "empty_like")
def _zeros(node: Node) -> Value:
    """What is not written before it is read may hold anything: zeros."""
    return _filled(node, node.number(1 if "ones" in node.op else 0, node.dtype))


@translates("new_empty", "empty_permuted", "new_empty_strided", "empty_strided")
def _empty(node: Node) -> Value:
    return _filled(node, node.number(0, node.dtype))


@translates("arange", "arange.start", "arange.start_step")
def _arange(node: Node) -> Value:
    start, end = (0 if node.get("start") is None else node.get("start")), node.get("end")
    step = 1 if node.get("step") is None else node.get("step")
    if any(isinstance(bound, Dim) for bound in (start, end, step)):
        if not is_number(step) or step < 1:
            node.refuse(f"step={step} between places that depend on sizes")
        count = node.emit.dimensions.at_least_zero((end - start + step - 1) // step)
    else:
        count = max(math.ceil((end - start) / step), 0)
    return node.emit.typed("range", node.dtype, (count,), start=start, limit=end, step=step)


@translates("linspace")
def _linspace(node: Node) -> Value:
    start, end, steps = node.real("start"), node.real("end"), node.integer("steps")
    return node.constant(np.linspace(start, end, steps), node.dtype)


@translates("eye", "eye.m")
def _eye(node: Node) -> Value:
    rows = node.integer("n")
    return node.constant(np.eye(rows, node.integer("m") if node.get("m") is not None else rows), node.dtype)
