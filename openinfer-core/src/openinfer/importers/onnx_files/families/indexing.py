"""Operators that read or write at places that indices name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.importers.onnx_files.node import Node
from openinfer.importers.onnx_files.registry import translates

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.values import Setting, Value


@translates("Gather")
def _gather(node: Node) -> Value:
    x, indices, axis = node.given(0), node.given(1), int(node.get("axis", 0))
    if indices.payload is not None and indices.rank == 0:
        return node.call("select", x, axis=axis, index=int(indices.array()))
    if indices.elements is not None and indices.rank == 0:
        return node.call("select", x, axis=axis, index=indices.elements[0])
    return node.call("gather", x, indices, **({"axis": axis} if axis else {}))


@translates("GatherElements")
def _gather_elements(node: Node) -> Value:
    axis = int(node.get("axis", 0))
    return node.call("gather_elements", node.given(0), node.given(1), **({"axis": axis} if axis else {}))


@translates("GatherND")
def _gather_nd(node: Node) -> Value:
    dims = int(node.get("batch_dims", 0))
    return node.call("gather_nd", node.given(0), node.given(1), **({"batch_dims": dims} if dims else {}))


@translates("ScatterElements", "Scatter")
def _scatter(node: Node) -> Value:
    settings: dict[str, Setting] = {"axis": int(node.get("axis", 0))}
    reduction = node.get("reduction", "none")
    if reduction != "none":
        settings["reduction"] = reduction
    return node.call("scatter", *node.inputs, **settings)


@translates("ScatterND")
def _scatter_nd(node: Node) -> Value:
    reduction = node.get("reduction", "none")
    return node.call("scatter_nd", *node.inputs, **({} if reduction == "none" else {"reduction": reduction}))


@translates("TensorScatter")
def _tensor_scatter(node: Node) -> Value:
    node.refuse(
        "each sequence is written from an index of its own on: write with ScatterND, whose indices say all places"
    )
