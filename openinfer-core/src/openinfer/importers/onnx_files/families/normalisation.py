"""Normalisation and softmax."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import F32, F64
from openinfer.importers.onnx_files.families.elementwise import cast
from openinfer.importers.onnx_files.node import Node
from openinfer.importers.onnx_files.registry import translates

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.values import Setting, Value


@translates("Softmax", "LogSoftmax")
def _softmax(node: Node) -> Value:
    x = node.given(0)
    op = "softmax" if node.op == "Softmax" else "log_softmax"
    axis = int(node.get("axis", -1 if node.opset >= 13 else 1))
    if node.opset >= 13 or axis % max(x.rank, 1) == x.rank - 1:
        return node.call(op, x, **({} if axis in (-1, x.rank - 1) else {"axis": axis}))
    # Before opset 13 the dims from the axis on were one.
    rows = node.call("flatten", x, axis=axis)
    return node.call("reshape", node.call(op, rows), shape=x.dims)


def epsilon(node: Node) -> dict[str, Setting]:
    """Return what is added to a variance."""
    eps = node.real("epsilon", 1e-5)
    return {} if eps == 1e-5 else {"eps": eps}


@translates("SimplifiedLayerNormalization")
def rms_norm(node: Node) -> tuple[Value | None, ...]:
    """Return what ONNX Runtime's optimiser writes in ONNX's own domain, and its inverse deviation."""
    node.require("stash_type", 1)
    axis = int(node.get("axis", -1))
    found = node.call("rms_norm", node.given(0), node.given(1), eps=node.real("epsilon", 1e-5), axis=axis)
    if not node.writes(1):
        return (found,)
    x = cast(node, node.given(0), F32)
    axes = tuple(range(axis % x.rank, x.rank))
    mean = node.call("mean_axis", node.call("square", x), axes=axes, keepdims=True)
    return found, node.call("rsqrt", node.call("add", mean, node.number(float(node.get("epsilon", 1e-5)), F32)))


@translates("LayerNormalization", "RMSNormalization")
def _layer_norm(node: Node) -> tuple[Value | None, ...]:
    node.require("stash_type", 1)
    axis = int(node.get("axis", -1))
    settings = epsilon(node) | ({} if axis == -1 else {"axis": axis})
    op = "layer_norm" if node.op == "LayerNormalization" else "rms_norm"
    found = node.call(op, *node.inputs, **settings)
    return (found, *_statistics(node, axis)) if any(node.source.outputs[1:]) else (found,)


def _statistics(node: Node, axis: int) -> tuple[Value, Value]:
    """Return mean and inverse deviation of each row: f32, and computed as such, whatever the rows are."""
    x = cast(node, node.given(0), F32)
    axes = tuple(range(axis % x.rank, x.rank))
    mean = node.call("mean_axis", x, axes=axes, keepdims=True)
    variance = node.call("mean_axis", node.call("square", node.call("sub", x, mean)), axes=axes, keepdims=True)
    shifted = node.call("add", variance, node.number(float(node.get("epsilon", 1e-5)), F32))
    return mean, node.call("rsqrt", shifted)


@translates("MeanVarianceNormalization")
def _mean_variance_norm(node: Node) -> Value:
    """Squares are of what is centred: those of the function that defines it cancel where means are large."""
    image = node.given(0)
    x = image if image.dtype is F64 else cast(node, image, F32)
    axes = tuple(node.get("axes", (0, 2, 3))) or tuple(range(x.rank))
    centred = node.call("sub", x, node.call("mean_axis", x, axes=axes, keepdims=True))
    variance = node.call("mean_axis", node.call("square", centred), axes=axes, keepdims=True)
    deviation = node.call("add", node.call("sqrt", variance), node.number(1e-9, x.dtype))
    return cast(node, node.call("div", centred, deviation), image.dtype)


@translates("BatchNormalization")
def _batch_norm(node: Node) -> Value:
    if node.flag("training_mode"):
        node.refuse_training("training_mode=1")
    node.require("spatial", 1)
    if any(node.source.outputs[1:]):
        node.refuse_training("statistics as outputs")
    return node.call("batch_norm", *node.inputs[:5], **epsilon(node))


@translates("InstanceNormalization")
def _instance_norm(node: Node) -> Value:
    return node.call("instance_norm", *node.inputs, **epsilon(node))


@translates("GroupNormalization")
def _group_norm(node: Node) -> Value:
    node.require("stash_type", 1)
    x, groups = node.given(0), int(node.get("num_groups"))
    scale, bias = node.given(1), node.given(2)
    if node.opset < 21 and scale.dims != x.dims[1:2]:
        # Before opset 21 there was a scale for each group.
        channels = node.shape(0)[1]
        scale, bias = (node.call("repeat", given, axis=0, count=channels // groups) for given in (scale, bias))
    return node.call("group_norm", x, scale, bias, groups=groups, **epsilon(node))
