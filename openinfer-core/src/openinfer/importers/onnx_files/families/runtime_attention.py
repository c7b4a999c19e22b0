"""Attention layers that ONNX Runtime's optimiser fuses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.dtypes import I64
from openinfer.importers.onnx_files.families.elementwise import cast
from openinfer.importers.onnx_files.families.quantisation import as_scalar
from openinfer.importers.onnx_files.families.runtime_masks import added_mask
from openinfer.importers.onnx_files.families.runtime_quantised import scaled
from openinfer.importers.onnx_files.node import Node
from openinfer.importers.onnx_files.registry import contributed
from openinfer.importers.onnx_files.sizes import is_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.dims import Size
    from openinfer.dtypes import DType
    from openinfer.importers.onnx_files.values import Setting, Value


@dataclass(frozen=True, slots=True)
class _Operands:
    """Queries, keys and values by heads, and what is added to their products."""

    q: Value
    k: Value
    v: Value
    masks: Sequence[Value | None]
    settings: dict[str, Setting]


def _attended(node: Node, given: _Operands) -> Value:
    """Return attention with heads side by side: [batch, length, heads times width]."""
    masks = [part for part in given.masks if part is not None]
    mask = masks[0] if masks else None
    for part in masks[1:]:
        mask = node.call("add", mask, part)
    seen = node.call("sdpa", given.q, given.k, given.v, mask, **given.settings)
    return _side_by_side(node, seen)


def _side_by_side(node: Node, x: Value) -> Value:
    rows = node.call("transpose", x, perm=(0, 2, 1, 3))
    batch, length, heads, width = rows.dims
    return node.reshaped(rows, (batch, length, heads * width))


def _by_heads(node: Node, x: Value, heads: int) -> Value:
    """Return rows [batch, length, heads times width] as [batch, heads, length, width]."""
    batch, length, width = x.dims
    if not is_number(width) or width % heads:
        node.refuse(f"{heads} heads in rows of {width} elements")
    return node.call("transpose", node.reshaped(x, (batch, length, heads, width // heads)), perm=(0, 2, 1, 3))


def _parts(node: Node, x: Value, widths: Sequence[int]) -> list[Value]:
    """Return columns of rows, one part after the other."""
    starts = [sum(widths[:number]) for number in range(len(widths))]
    return [
        node.call("narrow", x, axis=-1, start=start, length=width) for start, width in zip(starts, widths, strict=True)
    ]


def _scale(node: Node) -> dict[str, Setting]:
    """Return the factor of the products; 0 stands for the inverse root of the width."""
    return {"scale": node.real("scale")} if node.get("scale", 0.0) else {}


def _with_past(node: Node, past: Value | None, new: Value) -> Value:
    return new if past is None else node.call("concat", past, new, axis=2)


# Attention, QAttention

_LAYER = (
    "do_rotary mask_filter_value num_heads past_present_share_buffer qkv_hidden_sizes rotary_embedding_dim scale "
    "unidirectional"
)


@contributed("Attention", attributes=_LAYER)
def _attention(node: Node) -> tuple[Value | None, ...]:
    """Rows times the weights of queries, keys and values, which lie side by side."""
    node.refuse_inputs(past_sequence_length=6)
    product = node.call("matmul", node.given(0), node.given(1))
    bias = node.input(2)
    rows = product if bias is None else node.call("add", product, bias)
    return _layer(node, rows, mask=node.input(3), past=node.input(4), added=node.input(5))


@contributed("QAttention", attributes=_LAYER.replace("qkv_hidden_sizes rotary_embedding_dim ", ""))
def _qattention(node: Node) -> tuple[Value | None, ...]:
    """The same with rows and weights of bytes."""
    zeros = [None if (zero := node.input(position)) is None else as_scalar(node, zero) for position in (6, 7)]
    total = node.call("matmul_integer", node.given(0), node.given(1), *zeros)
    left, right = (as_scalar(node, node.given(position)) for position in (3, 4))
    rows = scaled(node, total, left, right, node.given(2))
    return _layer(node, rows, mask=node.input(5), past=node.input(8), added=None)


def _layer(
    node: Node, rows: Value, *, mask: Value | None, past: Value | None, added: Value | None
) -> tuple[Value | None, ...]:
    node.require("do_rotary", 0)
    node.require("past_present_share_buffer", 0)
    heads, columns = int(node.get("num_heads")), rows.dims[-1]
    if not is_number(columns):
        node.refuse_sizes("the number of columns of the weights", columns)
    widths = [int(width) for width in node.get("qkv_hidden_sizes", [columns // 3] * 3)]
    q, k, v = (_by_heads(node, part, heads) for part in _parts(node, rows, widths))
    if past is not None:
        k, v = (
            node.call("concat", node.call("select", past, axis=0, index=number), new, axis=2)
            for number, new in enumerate((k, v))
        )
    masks = (added_mask(node, mask, q, k), added)
    found = _attended(node, _Operands(q, k, v, masks, _scale(node) | _causal(node)))
    return found, node.call("stack", k, v, axis=0) if node.writes(1) else None


def _causal(node: Node) -> dict[str, Setting]:
    """Return that a query sees keys up to itself; queries are the last ones."""
    return {"causal": True} if node.flag("unidirectional") else {}


# MultiHeadAttention, DecoderMaskedMultiHeadAttention


@contributed("MultiHeadAttention", attributes="mask_filter_value num_heads scale unidirectional")
def _multi_head_attention(node: Node) -> tuple[Value | None, ...]:
    node.refuse_inputs(past_sequence_length=8, cache_indirection=9)
    node.refuse_outputs(qk=3)
    q, k, v = _projected(node, node.input(3))
    k, v = _with_past(node, node.input(6), k), _with_past(node, node.input(7), v)
    masks = (added_mask(node, node.input(4), q, k), node.input(5))
    found = _attended(node, _Operands(q, k, v, masks, _scale(node) | _causal(node)))
    return found, k, v


@contributed(
    "DecoderMaskedMultiHeadAttention",
    attributes="mask_filter_value num_heads output_qk past_present_share_buffer scale",
)
def _decoder_attention(node: Node) -> tuple[Value | None, ...]:
    """One query for each sequence; keys and values from another sequence are those of the past alone."""
    node.require("past_present_share_buffer", 0)
    node.refuse_inputs(past_sequence_length=7, beam_width=8, cache_indirection=9)
    node.refuse_outputs(qk=3)
    q, k, v = _projected(node, node.input(10))
    if node.given(1).rank == 3:
        k, v = _with_past(node, node.input(5), k), _with_past(node, node.input(6), v)
    masks = (added_mask(node, node.input(3), q, k), node.input(4))
    return _attended(node, _Operands(q, k, v, masks, _scale(node))), k, v


def _projected(node: Node, bias: Value | None) -> tuple[Value, Value, Value]:
    """Return queries, keys and values by heads, in whichever of its forms the node has them, plus their biases."""
    heads, first, second, third = int(node.get("num_heads")), node.given(0), node.input(1), node.input(2)
    if first.rank == 5:
        # [batch, length, heads, 3, width]
        parts = [_of_stack(node, first, number) for number in range(3)]
    elif second is not None and second.rank == 5:
        parts = [first, *(_of_stack(node, second, number) for number in range(2))]
    elif second is not None and third is not None:
        parts = [first, second, third]
    else:
        node.refuse("a key without a value, or none of either")
    biases = [None, None, None] if bias is None else _split_bias(node, bias, parts)
    q, k, v = (_heads_of(node, part, of, heads) for part, of in zip(parts, biases, strict=True))
    return q, k, v


def _of_stack(node: Node, x: Value, number: int) -> Value:
    """Return queries, keys or values [batch, length, heads times width] of those that lie side by side by heads."""
    batch, length, heads, _, width = x.dims
    part = node.call("select", x, axis=3, index=number)
    return node.reshaped(part, (batch, length, heads * width))


def _split_bias(node: Node, bias: Value, parts: Sequence[Value]) -> list[Value | None]:
    widths = [part.dims[-1] for part in parts if part.rank == 3]
    numbers = [width for width in widths if is_number(width)]
    if len(numbers) != len(widths):
        node.refuse_sizes("the length of the bias", *widths)
    if len(parts) != len(numbers):
        # Keys and values of another sequence have theirs already.
        return [node.call("narrow", bias, axis=-1, start=0, length=numbers[0]), None, None]
    return [*_parts(node, bias, numbers)]


def _heads_of(node: Node, x: Value, bias: Value | None, heads: int) -> Value:
    if x.rank == 4:
        return x
    return _by_heads(node, x if bias is None else node.call("add", x, bias), heads)


# GroupQueryAttention, RotaryEmbedding


@contributed(
    "GroupQueryAttention",
    attributes="do_rotary kv_num_heads local_window_size num_heads rotary_interleaved scale smooth_softmax softcap",
)
def _group_query_attention(node: Node) -> tuple[Value | None, ...]:
    """Grouped heads with keys and values that a step extends: all sequences of a batch have as long a past."""
    node.require("smooth_softmax", 0, -1)
    node.refuse_inputs(head_sink=11, k_scale=12, v_scale=13, q_norm_weight=14, k_norm_weight=15, query_seqlens=16)
    node.refuse_outputs(output_qk=3)
    q, k, v = _grouped(node)
    past = node.input(3)
    before: Size = 0 if past is None else past.dims[2]
    if node.flag("do_rotary"):
        q, k = (_turned(node, x, before) for x in (q, k))
    k, v = _with_past(node, past, k), _with_past(node, node.input(4), v)
    settings = _scale(node) | {"causal": True}
    if node.get("softcap", 0.0):
        settings["softcap"] = node.real("softcap")
    window = int(node.get("local_window_size", -1))
    if window > 0:
        # The window counts the query's own key.
        settings["window"] = window - 1
    masks = (_keys_of_sequences(node, k, q.dtype), node.input(10))
    found = _attended(node, _Operands(q, k, v, masks, settings))
    return found, k, v


def _grouped(node: Node) -> tuple[Value, Value, Value]:
    """Return queries, keys and values by heads; packed ones lie side by side in rows."""
    heads, groups = int(node.get("num_heads")), int(node.get("kv_num_heads"))
    rows, k, v = node.given(0), node.input(1), node.input(2)
    if k is None or v is None:
        columns = rows.dims[-1]
        if not is_number(columns):
            node.refuse_sizes("the number of columns", columns)
        width = columns // (heads + 2 * groups)
        rows, k, v = _parts(node, rows, [heads * width, groups * width, groups * width])
    return _by_heads(node, rows, heads), _by_heads(node, k, groups), _by_heads(node, v, groups)


def _turned(node: Node, x: Value, before: Size) -> Value:
    """Return queries or keys rotated by their positions, which follow the past."""
    cos, sin, positions = (node.input(position) for position in (7, 8, 9))
    if positions is None:
        positions = _counted(node, before, x.dims[2])
    interleaved: dict[str, Setting] = {"interleaved": True} if node.flag("rotary_interleaved") else {}
    return node.call("rope_cached", x, cos, sin, positions, **_rotated_width(x, cos), **interleaved)


def _rotated_width(x: Value, cos: Value | None) -> dict[str, Setting]:
    """Return how many elements are rotated, where the tables are for fewer than there are."""
    half = None if cos is None else cos.dims[-1]
    width = x.dims[-1]
    if not is_number(half) or 2 * half == width:
        return {}
    return {"rotary_dim": 2 * half}


def _counted(node: Node, start: Size, length: Size) -> Value:
    return node.emit.typed("range", I64, (length,), start=start, limit=start + length)


def _keys_of_sequences(node: Node, k: Value, kind: DType) -> Value | None:
    """Return what hides the keys that only pad a sequence; with a past, sequences have the keys of that and the new."""
    if node.input(3) is not None:
        return None
    batch, _, keys, _ = k.dims
    last = node.reshaped(cast(node, node.given(5), I64), (batch, 1, 1, 1))
    shown = node.call("le", _counted(node, 0, keys), last)
    return node.call("where", shown, node.number(0.0, kind), node.number(_HIDDEN[kind.name], kind))


_HIDDEN = {"f16": -65504.0, "bf16": -3.3e38, "f32": -3.4028234663852886e38, "f64": -1e300}
"""What hides a key in each type: about the least number."""


@contributed("RotaryEmbedding", attributes="interleaved is_packed_batching num_heads rotary_embedding_dim scale")
def _rotary_embedding(node: Node) -> Value:
    """Rows [B, S, H D] or [B, H, S, D] rotated at positions [B, S], or at those from the one given on."""
    node.require("scale", 1.0)
    x, positions, cos, sin = (node.given(position) for position in range(4))
    rotated, half = int(node.get("rotary_embedding_dim", 0)), cos.dims[-1]
    settings: dict[str, Setting] = {"interleaved": True} if node.flag("interleaved") else {}
    settings |= {"rotary_dim": rotated} if rotated else {}
    length = x.dims[1 if x.rank == 3 else 2]
    if positions.rank == 1:
        positions = node.call("add", positions, _counted(node, 0, length))
    if x.rank == 4:
        return node.call("rope_cached", x, cos, sin, positions, **settings)
    batch, _, columns = x.dims
    heads = int(node.get("num_heads", 0))
    if not is_number(columns) or not is_number(half):
        node.refuse_sizes("the number of columns", columns, half)
    heads = heads or columns // (2 * half)
    apart = node.reshaped(x, (batch, length, heads, columns // heads))
    turned = node.call("rope_cached", apart, cos, sin, positions, **settings, seq_axis=-3)
    return node.reshaped(turned, (batch, length, columns))
