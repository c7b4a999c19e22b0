"""Attention and rotary embeddings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from openinfer.dtypes import BOOL, F32, I64
from openinfer.importers.onnx_files.elements import element_type
from openinfer.importers.onnx_files.families.elementwise import cast
from openinfer.importers.onnx_files.node import Node
from openinfer.importers.onnx_files.package import onnx_module
from openinfer.importers.onnx_files.registry import translates
from openinfer.importers.onnx_files.sizes import is_number
from openinfer.importers.onnx_files.values import Value

if TYPE_CHECKING:
    from openinfer.dims import Size
    from openinfer.dtypes import DType
    from openinfer.importers.onnx_files.values import Setting


@dataclass(frozen=True, slots=True)
class _Limits:
    """Which keys a query sees, whatever the mask says.

    Attributes:
        offset: position of the first query among the keys; a value [B, 1, 1, 1] where sequences differ.
        lengths: number of keys that count, of each sequence; None for all.
        left, right: how many keys before and after its own position a query sees; -1: all.
    """

    offset: Size | Value
    lengths: Size | Value | None
    causal: bool
    left: int
    right: int

    @property
    def needs_mask(self) -> bool:
        """Whether settings of `sdpa` cannot say it."""
        of_sequences = self.lengths is not None and not isinstance(self.lengths, int)
        return of_sequences or self.right >= 0 or (self.left >= 0 and not self.causal)

    def settings(self) -> dict[str, Setting]:
        """Return the limits as settings of `sdpa`, where no mask is needed."""
        settings: dict[str, Setting] = {}
        if isinstance(self.lengths, int):
            settings["kv_len"] = self.lengths
        if self.causal:
            settings |= {"causal": True, "q_offset": self.offset}
        if self.left >= 0:
            settings["window"] = self.left
        return settings


@translates("Attention")
def _attention(node: Node) -> tuple[Value | None, ...]:
    q = _heads(node, node.given(0), "q")
    k, v = (_heads(node, node.given(position), "kv") for position in (1, 2))
    past_k, past_v = node.input(4), node.input(5)
    before: Size = 0
    if past_k is not None and past_v is not None:
        before = past_k.dims[2]
        k, v = node.call("concat", past_k, k, axis=2), node.call("concat", past_v, v, axis=2)
    mask, limits = _mask(node, k), _limits(node, q.dims[2], before)
    kind, products = _softmax_type(node), None
    if kind not in (None, F32, q.dtype) or node.writes(3):
        bias = _bias(node, _masked(node, mask, limits, q, k), q.dtype)
        seen, products = _by_products(node, (q, k, v), bias, kind or q.dtype)
    elif limits.needs_mask:
        seen = node.call("sdpa", q, k, v, _masked(node, mask, limits, q, k), **_factors(node))
    else:
        seen = node.call("sdpa", q, k, v, mask, **_factors(node), **limits.settings())
    return _folded(node, seen), k if past_k is not None or node.writes(1) else None, v, products


def _factors(node: Node) -> dict[str, Setting]:
    """Return what products of queries and keys are multiplied with and bounded by, where the node says it."""
    settings: dict[str, Setting] = {"softcap": node.real("softcap")} if node.get("softcap", 0.0) else {}
    return settings | ({"scale": node.real("scale")} if node.has("scale") else {})


def _softmax_type(node: Node) -> DType | None:
    """Return the type in which weights are computed, where the node says it: that of `sdpa` is f32 or wider."""
    number = node.get("softmax_precision")
    return None if number is None else element_type(onnx_module(), int(number))


def _mask(node: Node, k: Value) -> Value | None:
    """Return the mask with a dim for each of [batch, heads, queries, keys] where it has three."""
    mask = node.input(3)
    if mask is None:
        return None
    columns, keys = mask.dims[-1], k.dims[2]
    if is_number(columns) and is_number(keys) and 1 < columns < keys:
        # Keys without a column are hidden.
        pads = (*[0] * (2 * mask.rank - 1), keys - columns)
        mask = node.call("pad", mask, pads=pads, value=False if mask.dtype is BOOL else -math.inf)
    elif is_number(columns) and columns not in (1, keys):
        node.refuse(f"a mask for {columns} keys, expected {keys}")
    return node.call("unsqueeze", mask, axes=(0,)) if mask.rank == 3 else mask


def _limits(node: Node, queries: Size, before: Size) -> _Limits:
    offset: Size | Value = before
    lengths: Size | Value | None = node.input(6)
    if isinstance(lengths, Value):
        numbers = set(lengths.integers() or ())
        if len(numbers) == 1:
            (lengths,) = numbers
            offset = lengths - queries
        else:
            lengths = node.reshaped(cast(node, lengths, I64), (lengths.dims[0], 1, 1, 1))
            offset = node.call("sub", lengths, _counted(node, queries, 1))
    left, right = (int(node.get(f"{side}_window_size", -1)) for side in ("left", "right"))
    return _Limits(offset, lengths, causal=node.flag("is_causal"), left=left, right=right)


def _counted(node: Node, start: Size, count: Size) -> Value:
    return node.emit.typed("range", I64, (count,), start=start, limit=start + count)


def _masked(node: Node, mask: Value | None, limits: _Limits, q: Value, k: Value) -> Value | None:
    """Return a mask without what the limits hide."""
    shown = _shown(node, limits, q.dims[2], k.dims[2])
    if shown is None or mask is None:
        return mask if shown is None else shown
    if mask.dtype is BOOL:
        return node.call("and", mask, shown)
    return node.call("where", shown, mask, _least(node, mask))


def _shown(node: Node, limits: _Limits, queries: Size, keys: Size) -> Value | None:
    """Return which keys the limits let queries see, as far as they say; it broadcasts to [batch, heads, queries, keys].

    Formula: "Attention" of ONNX's operators.
    """
    key = _counted(node, 0, keys)
    if isinstance(limits.offset, Value):
        position = node.call("add", limits.offset, node.reshaped(_counted(node, 0, queries), (queries, 1)))
    else:
        position = node.reshaped(_counted(node, limits.offset, queries), (queries, 1))
    conditions: list[Value] = []
    if isinstance(limits.lengths, Value):
        conditions.append(node.call("lt", key, limits.lengths))
    elif limits.lengths is not None:
        conditions.append(node.call("lt", key, _counted(node, limits.lengths, 1)))
    if limits.causal:
        conditions.append(node.call("le", key, position))
    if limits.left >= 0:
        conditions.append(node.call("ge", key, node.call("sub", position, node.number(limits.left, I64))))
    if limits.right >= 0:
        conditions.append(node.call("le", key, node.call("add", position, node.number(limits.right, I64))))
    return reduce(lambda both, condition: node.call("and", both, condition), conditions) if conditions else None


def _bias(node: Node, mask: Value | None, kind: DType) -> Value | None:
    """Return a mask as what is added to products."""
    if mask is None or mask.dtype is not BOOL:
        return mask
    return node.call("where", mask, node.number(0.0, kind), node.number(-math.inf, kind))


def _by_products(
    node: Node, heads: tuple[Value, Value, Value], bias: Value | None, kind: DType
) -> tuple[Value, Value | None]:
    """Return attention by statements of its own, and its products at the stage that ``qk_matmul_output_mode`` says.

    Args:
        kind: the type in which weights are computed.
    """
    q, k, v = heads
    width, groups, all_heads = q.dims[3], k.dims[1], q.dims[1]
    if not (is_number(width) and is_number(groups) and is_number(all_heads)):
        node.refuse_sizes("the number of heads, or of elements of one,", width, groups, all_heads)
    if groups != all_heads:
        k, v = (node.call("repeat", x, axis=1, count=all_heads // groups) for x in (k, v))
    scale = node.real("scale") if node.has("scale") else 1 / math.sqrt(width)
    product = node.call("matmul", q, node.call("transpose", k, perm=(0, 1, 3, 2)))
    stages = [node.call("mul", product, node.number(scale, q.dtype))]
    cap = node.real("softcap")
    if cap:
        bounded = node.call("tanh", node.call("div", stages[0], node.number(cap, q.dtype)))
        stages.append(node.call("mul", bounded, node.number(cap, q.dtype)))
    else:
        stages.append(stages[0])
    stages.append(stages[1] if bias is None else node.call("add", stages[1], bias))
    weights = node.call("softmax", cast(node, stages[2], kind), axis=-1)
    if bias is not None:
        is_hidden = node.call("eq", node.call("max_axis", bias, axes=(-1,), keepdims=True), _least(node, bias))
        weights = node.call("where", is_hidden, node.number(0.0, kind), weights)
    stages.append(cast(node, weights, q.dtype))
    mode = int(node.get("qk_matmul_output_mode", 0))
    if not 0 <= mode < len(stages):
        node.refuse(f"qk_matmul_output_mode={mode}, expected 0 to {len(stages) - 1}")
    return node.call("matmul", stages[3], v), stages[mode] if node.writes(3) else None


def _least(node: Node, x: Value) -> Value:
    return node.number(-math.inf, x.dtype)


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
