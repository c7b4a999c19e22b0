"""Attention and rotary embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.importers.onnx_files.node import Node
from openinfer.importers.onnx_files.registry import translates
from openinfer.importers.onnx_files.sizes import is_number

if TYPE_CHECKING:
    from openinfer.dims import Size
    from openinfer.importers.onnx_files.values import Setting, Value


@translates("Attention")
def _attention(node: Node) -> tuple[Value | None, ...]:
    node.require("softmax_precision", 1)
    node.require("right_window_size", -1, 0)
    if len(node.source.outputs) > 3 and node.source.outputs[3]:
        node.refuse("products of queries and keys as a result")
    q = _heads(node, node.given(0), "q")
    k, v = (_heads(node, node.given(position), "kv") for position in (1, 2))
    past_k, past_v = node.input(4), node.input(5)
    before: Size = 0
    if past_k is not None and past_v is not None:
        before = past_k.dims[2]
        k, v = node.call("concat", past_k, k, axis=2), node.call("concat", past_v, v, axis=2)
    settings = _settings(node, before)
    mask = node.input(3)
    if mask is not None and mask.rank == 3:
        mask = node.call("unsqueeze", mask, axes=(0,))
    if mask is not None and mask.dims[-1] != k.dims[2] and mask.shape is not None and mask.shape[-1] != 1:
        node.refuse("a mask of fewer keys than there are")
    found = _folded(node, node.call("sdpa", q, k, v, mask, **settings))
    return found, k if past_k is not None or len(node.source.outputs) > 1 else None, v


def _settings(node: Node, before: Size) -> dict[str, Setting]:
    settings: dict[str, Setting] = {}
    if node.flag("is_causal"):
        settings["causal"] = True
        settings["q_offset"] = before
    if node.get("softcap", 0.0):
        settings["softcap"] = node.real("softcap")
    if node.has("scale"):
        settings["scale"] = node.real("scale")
    lengths = node.plain_integers(6)
    if lengths is not None:
        if len(set(lengths)) > 1:
            node.refuse("another number of keys for each sequence")
        queries = node.given(0).dims[-2]
        settings["kv_len"] = lengths[0]
        if is_number(queries) and node.flag("is_causal"):
            settings["q_offset"] = lengths[0] - queries
    window = int(node.get("left_window_size", -1))
    if window >= 0:
        if not node.flag("is_causal"):
            node.refuse("a window that is not causal")
        settings["window"] = window
    return settings


def _heads(node: Node, x: Value, whose: str) -> Value:
    """Return [batch, heads, length, width]; in three dims, the last one holds all heads."""
    if x.rank == 4:
        return x
    heads = int(node.get(f"{whose}_num_heads"))
    batch, length, _ = x.dims
    apart = node.call("reshape", x, shape=(batch, length, heads, -1))
    return node.call("transpose", apart, perm=(0, 2, 1, 3))


def _folded(node: Node, found: Value) -> Value:
    if node.given(0).rank == 4:
        return found
    together = node.call("transpose", found, perm=(0, 2, 1, 3))
    batch, length = together.dims[:2]
    return node.call("reshape", together, shape=(batch, length, -1))


@translates("RotaryEmbedding")
def _rotary(node: Node) -> Value:
    x = node.given(0)
    settings: dict[str, Setting] = {}
    if node.get("rotary_embedding_dim", 0):
        settings["rotary_dim"] = int(node.get("rotary_embedding_dim"))
    if node.flag("interleaved"):
        settings["interleaved"] = True
    if x.rank != 3:
        return node.call("rope_cached", *node.inputs, **settings)
    batch, length, _ = x.dims
    heads = node.call("reshape", x, shape=(batch, length, int(node.get("num_heads")), -1))
    rotated = node.call("rope_cached", heads, *node.inputs[1:], **settings, seq_axis=-3)
    return node.call("reshape", rotated, shape=x.dims)
