"""Layers of state-space models and linear attention, which hand a state on from step to step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from openinfer.importers.onnx_files.control_flow import Row, turns
from openinfer.importers.onnx_files.node import Node
from openinfer.importers.onnx_files.registry import contributed
from openinfer.importers.onnx_files.sizes import is_number

if TYPE_CHECKING:
    from openinfer.dims import Dim, Size
    from openinfer.importers.onnx_files.values import Value

_EXTENDED = {"state_update_capacity": 0, "state_length": 0, "input_channel_offset": 0, "input_channels": 0}
"""Attributes that ONNX Runtime itself supports on CUDA alone, and the values that leave them unused."""


@contributed(
    "CausalConvWithState",
    attributes=f"activation channels_last dilation ndim state_channels_last state_window {' '.join(_EXTENDED)}",
)
def _causal_convolution(node: Node) -> tuple[Value, Value]:
    """Return a convolution of each channel with what came before, and the end of the channels for the next step."""
    for name, unused in {"ndim": 1, "state_window": 0, "state_channels_last": -1, **_EXTENDED}.items():
        node.require(name, unused)
    node.require("activation", "none", "silu", "swish")
    node.refuse_outputs(state_update=2)
    x, w, past = node.given(0), node.given(1), node.input(3)
    is_last, dims = node.flag("channels_last"), x.dims
    channels, kernel = w.shape[0] if w.shape else None, w.shape[-1] if w.shape else None
    if channels is None or kernel is None:
        node.refuse_sizes("the shape of the weight", *w.dims)
    batch, length = dims[0], dims[1 if is_last else -1]
    dilation = int(node.get("dilation", 1))
    kept = (kernel - 1) * dilation
    if is_last:
        x = _channels_first(node, x, (batch, length, channels))
        past = None if past is None else _channels_first(node, past, (batch, kept, channels))
    if past is None:
        past = node.call("expand", node.number(0, x.dtype), shape=(batch, channels, kept))
    joined = node.call("concat", past, x, axis=2)
    spread = {} if dilation == 1 else {"dilation": dilation}
    y = node.call("conv1d", joined, w, node.input(2), groups=channels, **spread)
    if node.get("activation", "none") != "none":
        y = node.call("silu", y)
    state = node.call("narrow", joined, axis=2, start=length, length=kept)
    if is_last:
        y, state = (node.call("transpose", value, perm=(0, 2, 1)) for value in (y, state))
        y, state = node.reshaped(y, dims), node.reshaped(state, (batch, kept, *dims[2:]))
    return y, state


def _channels_first(node: Node, value: Value, dims: tuple[Size, ...]) -> Value:
    return node.call("transpose", node.reshaped(value, dims), perm=(0, 2, 1))


@contributed("LinearAttention", attributes="chunk_size kv_num_heads q_num_heads scale state_window update_rule")
def _linear_attention(node: Node) -> tuple[Value, Value]:
    """Return what queries read from a matrix of each head, to which each token adds its key times its value.

    The rules are those of the operator's documentation: https://onnx.ai/onnx/operators/onnx__LinearAttention.html.
    """
    node.require("state_window", 0)
    rule = node.get("update_rule", "gated_delta")
    node.require("update_rule", "linear", "gated", "delta", "gated_delta")
    heads, read_heads = int(node.get("kv_num_heads")), int(node.get("q_num_heads"))
    if max(heads, read_heads) % min(heads, read_heads):
        node.refuse(f"q_num_heads={read_heads} and kv_num_heads={heads}, of which neither is a multiple of the other")
    batch, length, _ = node.given(0).dims
    queries, width = _queries(node, heads, read_heads)
    keys, values = (_by_token(node, node.given(position), (heads, 1)) for position in (1, 2))
    decay = _by_token(node, node.given(4), (heads, -1, 1)) if "gated" in rule else None
    rate = _rates(node, heads) if "delta" in rule else None
    past = node.input(3)
    if past is None:
        past = node.call("expand", node.number(0, queries.dtype), shape=(batch, heads, width, values.dims[-1]))
    scale = node.number(node.real("scale") or 1 / math.sqrt(width), queries.dtype)

    def turn(index: Dim, taken: list[Value]) -> tuple[list[Value], list[Row]]:
        query, key, value, gate, new = (
            None if x is None else node.call("select", x, axis=0, index=index)
            for x in (queries, keys, values, decay, rate)
        )
        state = taken[0] if gate is None else node.call("mul", taken[0], node.call("exp", gate))
        if new is not None:
            value = node.call("mul", new, node.call("sub", value, node.call("matmul", key, state)))
        state = node.call("add", state, node.call("matmul", node.call("transpose", key, perm=(0, 1, 3, 2)), value))
        return [state], [Row(node.call("mul", scale, node.call("matmul", query, state)))]

    results = turns(node, length, [past], 1, turn, f"{node.op}, token by token")
    if results is None:
        node.refuse("its turns cannot be written")
    state, rows = results
    columns = max(heads, read_heads) * values.dims[-1]
    return node.reshaped(node.call("transpose", rows, perm=(1, 0, 2, 3, 4)), (batch, length, columns)), state


def _queries(node: Node, heads: int, read_heads: int) -> tuple[Value, int]:
    """Return queries [T, B, H, queries of a head, D], and D: heads share a query where they are more than these."""
    x = node.given(0)
    columns = x.dims[2]
    if not is_number(columns):
        node.refuse_sizes("the number of columns", columns)
    width = columns // read_heads
    if read_heads >= heads:
        return _by_token(node, x, (heads, read_heads // heads)), width
    shared = node.reshaped(x, (*x.dims[:2], read_heads, 1, width))
    repeated = node.call("expand", shared, shape=(*x.dims[:2], read_heads, heads // read_heads, width))
    return _by_token(node, node.reshaped(repeated, (*x.dims[:2], heads * width)), (heads, 1)), width


def _rates(node: Node, heads: int) -> Value:
    """Return the share of a token's value that is written, [T, B, H or 1, 1, 1]."""
    rates = node.given(5)
    return _by_token(node, rates, (1 if rates.dims[2] == 1 else heads, 1))


def _by_token(node: Node, packed: Value, parts: tuple[int, ...]) -> Value:
    """Return a value [B, T, ...] for each token first, its columns in parts: [T, B, heads, ...] of rank 5."""
    batch, length, columns = packed.dims
    rest = math.prod(part for part in parts if part > 0)
    if not is_number(columns) or columns % rest:
        node.refuse(f"{columns} columns, expected a multiple of {rest}")
    shape = [columns // rest if part < 0 else part for part in parts]
    shape += [columns // rest] * (len(shape) < 3)
    return node.call("transpose", node.reshaped(packed, (batch, length, *shape)), perm=(1, 0, 2, 3, 4))
