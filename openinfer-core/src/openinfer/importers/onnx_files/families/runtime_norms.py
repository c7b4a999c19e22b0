"""Normalisations that ONNX Runtime's optimiser fuses with the sums before them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import I32, I64
from openinfer.importers.onnx_files.families.elementwise import cast
from openinfer.importers.onnx_files.families.normalisation import epsilon, rms_norm
from openinfer.importers.onnx_files.node import Node
from openinfer.importers.onnx_files.registry import contributed

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.values import Setting, Value


def _epsilon(node: Node, default: float) -> dict[str, Setting]:
    return {"eps": node.real("epsilon", default)}


def _total(node: Node, *parts: Value | None) -> Value:
    """Return the sum of the values that are there."""
    first, *others = (value for value in parts if value is not None)
    for value in others:
        first = node.call("add", first, value)
    return first


@contributed("SkipLayerNormalization", attributes="epsilon")
def _skip_layer_norm(node: Node) -> tuple[Value | None, ...]:
    node.refuse_outputs(mean=1, inv_std_var=2)
    total = _total(node, node.given(0), node.input(4), node.given(1))
    return node.call("layer_norm", total, node.given(2), node.input(3), **_epsilon(node, 1e-12)), None, None, total


@contributed("SkipSimplifiedLayerNormalization", attributes="epsilon")
def _skip_rms_norm(node: Node) -> tuple[Value | None, ...]:
    node.refuse_outputs(mean=1, inv_std_var=2)
    total = _total(node, node.given(0), node.input(3), node.given(1))
    return node.call("rms_norm", total, node.given(2), **_epsilon(node, 1e-12)), None, None, total


@contributed("SimplifiedLayerNormalization", attributes="axis epsilon stash_type")
def _rms_norm(node: Node) -> tuple[Value | None, ...]:
    return rms_norm(node)


@contributed("EmbedLayerNormalization", attributes="epsilon mask_index_type")
def _embed_layer_norm(node: Node) -> tuple[Value | None, ...]:
    ids, segments, words, positions, kinds, scale, bias, mask, places = (
        *node.inputs,
        *[None] * (9 - len(node.inputs)),
    )
    if ids is None or words is None or positions is None:
        node.refuse("input_ids, word_embedding or position_embedding is left out")
    parts = [node.call("embedding", ids, words)]
    if places is None:
        length = ids.dims[1]
        parts.append(node.call("narrow", positions, axis=0, start=0, length=length))
    else:
        parts.append(node.call("embedding", places, positions))
    if segments is not None and kinds is not None:
        parts.append(node.call("embedding", segments, kinds))
    total = _total(node, *parts)
    found = node.call("layer_norm", total, scale, bias, **_epsilon(node, 1e-12))
    return found, _mask_index(node, ids, mask), total


def _mask_index(node: Node, ids: Value, mask: Value | None) -> Value | None:
    """Return how many tokens of each sequence a mask shows; zeros where there is none."""
    if not node.writes(1) or node.get("mask_index_type", 1) == 0:
        return None
    if mask is None:
        return node.call("expand", node.number(0, I32), shape=(ids.dims[0],))
    return cast(node, node.call("sum_axis", cast(node, mask, I64), axes=(1,)), I32)


@contributed("GroupNorm", attributes="activation channels_last epsilon groups")
def _group_norm(node: Node) -> Value:
    return _grouped(node, node.given(0))


@contributed("SkipGroupNorm", attributes="activation channels_last epsilon groups")
def _skip_group_norm(node: Node) -> tuple[Value, Value]:
    x, skip, bias = node.given(0), node.given(3), node.input(4)
    if skip.rank == 2:
        batch, channels = skip.dims
        is_last = node.flag("channels_last", True)
        skip = node.reshaped(skip, (batch, 1, 1, channels) if is_last else (batch, channels, 1, 1))
    total = _total(node, x, skip, bias)
    return _grouped(node, total), total


def _grouped(node: Node, x: Value) -> Value:
    is_last = node.flag("channels_last", True)
    image = node.call("transpose", x, perm=(0, 3, 1, 2)) if is_last else x
    scale, bias = (cast(node, node.given(position), x.dtype) for position in (1, 2))
    found = node.call("group_norm", image, scale, bias, groups=int(node.get("groups")), **epsilon(node))
    if node.get("activation") not in (0, 1):
        node.refuse(f"activation={node.get('activation')}, expected 0 or 1 (SiLU)")
    found = node.call("silu", found) if node.get("activation") == 1 else found
    return node.call("transpose", found, perm=(0, 2, 3, 1)) if is_last else found
