"""Operators that read elements at places that are data."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from openinfer.importers.onnx_files.elements import scalar_of
from openinfer.importers.tflite_files.node import Node
from openinfer.importers.tflite_files.through_reals import on_codes

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.values import Value


def _gather(node: Node) -> Value:
    x = node.given(0)
    if node.option("BatchDims"):
        node.refuse("dims of batches")
    return node.call("gather", x, node.given(1), axis=node.axis(int(node.option("Axis")), x.rank))


def _gather_nd(node: Node) -> Value:
    return node.call("gather_nd", node.given(0), node.given(1))


def _embedding_lookup(node: Node) -> Value:
    return node.call("gather", node.given(1), node.given(0))


def _one_hot(node: Node) -> Value:
    """Rows of a known depth; numbers on and off are settings."""
    indices, dtype, depth = node.given(0), node.results[0].dtype, node.numbers(1)[0]
    on, off = (scalar_of(node.known_array(position), dtype) for position in (2, 3))
    axis = node.axis(int(node.option("Axis")), indices.rank + 1)
    dims = [*indices.dims[:axis], depth, *indices.dims[axis:]]
    return node.emit.typed("one_hot", dtype, dims, indices, depth=depth, on=on, off=off, axis=axis)


def _top_k(node: Node) -> list[Value]:
    values, places = node.emit.ops("topk", [node.given(0)], {"k": node.numbers(1)[0]})
    wanted = node.results[1].dtype if len(node.results) > 1 else places.dtype
    return [values, places if places.dtype is wanted else node.call("cast", places, to=wanted)]


TRANSLATORS = MappingProxyType(
    {
        "EMBEDDING_LOOKUP": on_codes(_embedding_lookup),
        "GATHER": on_codes(_gather),
        "GATHER_ND": on_codes(_gather_nd),
        "ONE_HOT": _one_hot,
        "TOPK_V2": on_codes(_top_k),
    }
)
