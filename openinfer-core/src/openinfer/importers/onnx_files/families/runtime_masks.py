"""Masks of ONNX Runtime's attention layers: what is added to the products of queries and keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import I64
from openinfer.importers.onnx_files.families.elementwise import cast
from openinfer.importers.onnx_files.node import Node
from openinfer.importers.onnx_files.sizes import is_number

if TYPE_CHECKING:
    from openinfer.dims import Size
    from openinfer.importers.onnx_files.values import Value


def added_mask(node: Node, mask: Value | None, q: Value, k: Value) -> Value | None:
    """Return a mask in any of its forms as numbers that broadcast to [batch, heads, queries, keys].

    ``mask_filter_value`` hides a key, which a sequence without other keys sees after all. Forms are lengths [B], ends
    and then starts [2B], lengths and what packed sequences need [3B + 2], keys [B, T], keys for each query [B, S, T],
    and a square of all positions [B, 1, M, M].
    """
    if mask is None:
        return None
    batch, _, queries, _ = q.dims
    keys = k.dims[2]
    shown = _shown(node, mask, batch, queries, keys)
    kind = q.dtype
    hidden = node.number(float(node.get("mask_filter_value", -10000.0)), kind)
    return node.call("where", shown, node.number(0.0, kind), hidden)


def _shown(node: Node, mask: Value, batch: Size, queries: Size, keys: Size) -> Value:
    """Return where a key is seen."""
    if mask.rank == 1:
        return _by_lengths(node, mask, batch, keys)
    shown = node.call("ne", mask, node.number(0, mask.dtype))
    if mask.rank == 2:
        return node.reshaped(shown, (batch, 1, 1, keys))
    if mask.rank == 3:
        return node.reshaped(shown, (batch, 1, queries, keys))
    if not is_number(queries) or not is_number(keys):
        node.refuse_sizes("the square of positions of a mask", queries, keys)
    rows = node.call("narrow", shown, axis=2, start=keys - queries, length=queries)
    return node.call("narrow", rows, axis=3, start=0, length=keys)


def _by_lengths(node: Node, mask: Value, batch: Size, keys: Size) -> Value:
    """Return the keys before the length of each sequence, and from its start on."""
    numbers = node.emit.typed("range", I64, (keys,), start=0, limit=keys)
    wide = cast(node, mask, I64)
    if mask.dims == (batch,):
        return node.call("lt", numbers, node.reshaped(wide, (batch, 1, 1, 1)))
    count = mask.dims[0]
    if not is_number(batch) or not is_number(count):
        node.refuse_sizes("the number of sequences with a length each", batch, count)
    first = node.reshaped(node.call("narrow", wide, axis=0, start=0, length=batch), (batch, 1, 1, 1))
    shown = node.call("lt", numbers, first)
    if count == 2 * batch:
        starts = node.call("narrow", wide, axis=0, start=batch, length=batch)
        return node.call("and", shown, node.call("ge", numbers, node.reshaped(starts, (batch, 1, 1, 1))))
    if count != 3 * batch + 2:
        node.refuse(f"a mask of {count} numbers for {batch} sequences, expected B, 2 B or 3 B + 2")
    return shown
