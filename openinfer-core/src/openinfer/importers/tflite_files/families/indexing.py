"""Operators that read elements at places that are data."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING

from openinfer.dtypes import BOOL, I64
from openinfer.importers.onnx_files.elements import scalar_of
from openinfer.importers.tflite_files.node import Node
from openinfer.importers.tflite_files.through_reals import on_codes

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.values import Value


def _gather(node: Node) -> Value:
    x, batches = node.given(0), int(node.option("BatchDims"))
    axis = node.axis(int(node.option("Axis")), x.rank)
    return _gather_in_batches(node, x, axis, batches) if batches else node.call("gather", x, node.given(1), axis=axis)


def _gather_in_batches(node: Node, x: Value, axis: int, batches: int) -> Value:
    """Return the same for each place of the first dims: rows of all of them in one dim, and places that count on."""
    indices = node.given(1)
    extents, places = x.shape, indices.shape
    if extents is None or places is None:
        node.refuse("the shape depends on sizes: fix them with --set")
    if not 0 < batches <= min(axis, indices.rank) or extents[:batches] != places[:batches] or axis != batches:
        node.refuse(f"{batches} dims of batches, with dim {axis}, of {list(extents)} and {list(places)}")
    count = math.prod(extents[:batches])
    rows = node.call("reshape", x, shape=(count * extents[axis], *extents[axis + 1 :]))
    numbers = node.emit.typed("range", I64, (count,), start=0, limit=count)
    starts = node.call("mul", numbers, node.number(extents[axis], I64))
    starts = node.call("reshape", starts, shape=(*places[:batches], *[1] * (indices.rank - batches)))
    # Read from a list of all places, an index out of range is an error, and does not reach another batch.
    within = node.emit.typed("range", I64, (extents[axis],), start=0, limit=extents[axis])
    return node.call("gather", rows, node.call("add", node.call("gather", within, indices), starts))


def _gather_nd(node: Node) -> Value:
    return node.call("gather_nd", node.given(0), node.given(1))


def _scatter_nd(node: Node) -> Value:
    """Zeros to which updates are added, also of one place."""
    updates = node.given(1)
    if updates.dtype is BOOL:
        node.refuse("of bool, whose updates of one place are joined")
    zeros = node.call("expand", node.number(0, updates.dtype), shape=node.integers(2))
    return node.call("scatter_nd", zeros, node.given(0), updates, reduction="add")


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
        "SCATTER_ND": _scatter_nd,
        "TOPK_V2": on_codes(_top_k),
    }
)
