"""Normalisation and softmax."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from openinfer.importers.onnx_files.sizes import is_number
from openinfer.importers.torch_files.node import Node
from openinfer.importers.torch_files.registry import translates

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.values import Setting, Value


@translates("_softmax", "softmax.int", "_log_softmax", "log_softmax.int", "_safe_softmax")
def _softmax(node: Node) -> Value:
    (x,) = node.in_result_type("self")
    axis = node.axis()
    op = "log_softmax" if "log" in node.op else "softmax"
    made = node.call(op, x, **({} if axis == x.rank - 1 else {"axis": axis}))
    if node.op != "_safe_softmax":
        return made
    # Rows without a finite element are zeros.
    return node.call("where", node.call("is_nan", made), node.number(0, made.dtype), made)


def _eps(node: Node) -> dict[str, Setting]:
    eps = float(node.real("eps"))
    return {} if eps == 1e-5 else {"eps": eps}


@translates("layer_norm", "native_layer_norm")
def _layer_norm(node: Node) -> tuple[Value | None, ...] | Value:
    x, weight, bias = node.tensor("input"), node.optional("weight"), node.optional("bias")
    rows = len(node.sizes("normalized_shape"))
    if weight is None and bias is not None:
        weight = _ones(node, bias)
    settings = _eps(node) | ({} if rows == 1 else {"axis": -rows})
    made = node.call("layer_norm", x, weight, bias, **settings)
    return made if node.op == "layer_norm" else (made, None, None)


def _ones(node: Node, like: Value) -> Value:
    return node.constant(np.ones([int(dim) for dim in like.dims]), like.dtype)


@translates("rms_norm", "_fused_rms_norm")
def _rms_norm(node: Node) -> tuple[Value | None, ...] | Value:
    x, weight = node.tensor("input"), node.optional("weight")
    rows = len(node.sizes("normalized_shape"))
    eps = node.get("eps")
    # By default PyTorch adds the distance from 1 to the next number of the type.
    eps = float(np.finfo(np.float64 if x.dtype.name == "f64" else np.float32).eps) if eps is None else float(eps)
    if weight is None:
        weight = node.constant(np.ones([int(dim) for dim in x.dims[-rows:]]), x.dtype)
    made = node.call("rms_norm", x, weight, eps=eps, axis=-rows)
    return made if node.op == "rms_norm" else (made, None)


@translates("batch_norm", "_native_batch_norm_legit_no_training", "native_batch_norm")
def _batch_norm(node: Node) -> tuple[Value | None, ...] | Value:
    x = node.tensor("input")
    if node.flag("training"):
        node.refuse("training=True: call eval() on the module before the export")
    mean, variance = node.optional("running_mean"), node.optional("running_var")
    if mean is None or variance is None:
        node.refuse("statistics of the batch itself (track_running_stats=False)")
    weight, bias = node.optional("weight"), node.optional("bias")
    weight = _ones(node, mean) if weight is None else weight
    bias = node.constant(np.zeros([int(dim) for dim in mean.dims]), mean.dtype) if bias is None else bias
    made = node.call("batch_norm", x, weight, bias, mean, variance, **_eps(node))
    return made if node.op == "batch_norm" else (made, None, None)


def _affine(node: Node, channels: int) -> tuple[Value, Value]:
    weight, bias = node.optional("weight"), node.optional("bias")
    x = node.tensor("input")
    return (
        node.constant(np.ones(channels), x.dtype) if weight is None else weight,
        node.constant(np.zeros(channels), x.dtype) if bias is None else bias,
    )


@translates("group_norm", "native_group_norm", "instance_norm")
def _group_norm(node: Node) -> tuple[Value | None, ...] | Value:
    x = node.tensor("input")
    channels = x.dims[1]
    if not is_number(channels):
        node.refuse("channels that depend on sizes")
    weight, bias = _affine(node, channels)
    if node.op == "instance_norm":
        if not node.flag("use_input_stats"):
            node.refuse("use_input_stats=False")
        return node.call("instance_norm", x, weight, bias, **_eps(node))
    groups = node.integer("num_groups" if node.op == "group_norm" else "group")
    made = node.call("group_norm", x, weight, bias, groups=groups, **_eps(node))
    return made if node.op == "group_norm" else (made, None, None)


@translates("_native_batch_norm_legit.no_stats")
def _batch_statistics(node: Node) -> tuple[Value | None, ...]:
    """What instance norms become: images and channels as one dim, standardised by their own statistics."""
    x = node.tensor("input")
    if x.dims[0] != 1:
        node.refuse("statistics of the batch itself (track_running_stats=False)")
    channels = x.dims[1]
    weight, bias = node.optional("weight"), node.optional("bias")
    if not is_number(channels) and (weight is None or bias is None):
        node.refuse("channels that depend on sizes")
    weight, bias = _affine(node, int(channels))
    return node.call("instance_norm", x, weight, bias, **_eps(node)), None, None


@translates("linalg_vector_norm", "norm.ScalarOpt_dim")
def _norm(node: Node) -> Value:
    (x,) = node.in_result_type("self")
    order = node.get("ord" if node.op == "linalg_vector_norm" else "p")
    settings: dict[str, Setting] = {"axes": node.axes(), "keepdims": node.flag("keepdim")}
    if order is None or order == 2:
        return node.call("l2_axis", x, **settings)
    absolute = node.call("abs", x)
    if order == 1:
        return node.call("sum_axis", absolute, **settings)
    if math.isinf(order):
        return node.call("max_axis" if order > 0 else "min_axis", absolute, **settings, nan="propagate")
    if order == 0:
        return node.call("sum_axis", node.converted(node.call("ne", x, node.number(0, x.dtype)), x.dtype), **settings)
    total = node.call("sum_axis", node.call("pow", absolute, node.number(float(order), x.dtype)), **settings)
    return node.call("pow", total, node.number(1 / float(order), x.dtype))
