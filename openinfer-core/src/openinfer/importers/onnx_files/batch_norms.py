"""Batch norms folded into the weights of the layer before: exact but for rounding."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from openinfer.importers.onnx_files.elements import stored_form
from openinfer.importers.onnx_files.rewriting import Calls
from openinfer.importers.onnx_files.source import Payload
from openinfer.importers.onnx_files.unused import without_unused
from openinfer.importers.onnx_files.values import Value

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.source import Array
    from openinfer.importers.onnx_files.values import Call, Program

LAYERS = ("conv1d", "conv2d", "linear")
"""Operators whose weights have the channels of the result along one dim."""


def without_batch_norms(program: Program) -> int:
    """Fold batch norms into the layers before them; return how many were."""
    calls = Calls(program)
    folded = sum(_folded(calls, call) for call in program.calls if call.op == "batch_norm")
    without_unused(program)
    return folded


def _folded(calls: Calls, norm: Call) -> bool:
    layer = calls.inner(norm.inputs[0], *LAYERS)
    if layer is None or layer.settings.get("acc"):
        return False
    parameters = [value for value in (*layer.inputs[1:], *norm.inputs[1:]) if value is not None]
    w, bias = layer.inputs[1], layer.inputs[2]
    known = all(value.is_known and value.dtype.name in ("f32", "f64") for value in parameters)
    if w is None or not known or (layer.op == "linear" and norm.outputs[0].rank != 2):
        return False
    axis = 0 if layer.op != "linear" or layer.settings.get("trans_w") else 1
    scale, shift, mean, var = (value.known for value in norm.inputs[1:5] if value is not None)
    eps = norm.settings.get("eps", 1e-5)
    factor = partial(_factor, scale, var, float(eps) if isinstance(eps, float | int) else 1e-5)
    old = None if bias is None else bias.known
    new_w = Payload(w.dtype, w.known.shape, partial(_scaled, w.known, factor, axis))
    new_b = Payload(w.dtype, scale.shape, partial(_shifted, old, mean, shift, factor, w.known))
    given = norm.inputs[2] if bias is None else bias
    name = "" if given is None else given.name
    weights = Value(w.name, w.dtype, w.dims, new_w)
    shifts = Value(name, w.dtype, norm.inputs[1].dims if norm.inputs[1] is not None else (), new_b)
    settings = dict(layer.settings)
    stage = layer.stage
    calls.replace(norm, layer.op, [layer.inputs[0], weights, shifts], settings)
    norm.stage = stage
    return True


def _factor(scale: Payload, var: Payload, eps: float) -> Array:
    return scale.load().astype(np.float64) / np.sqrt(var.load().astype(np.float64) + eps)


def _scaled(weights: Payload, factor: partial[Array], axis: int) -> Array:
    array = weights.load()
    by_channel = factor().reshape([-1 if dim == axis else 1 for dim in range(array.ndim)])
    return stored_form(array.astype(np.float64) * by_channel, weights.dtype)


def _shifted(bias: Payload | None, mean: Payload, shift: Payload, factor: partial[Array], like: Payload) -> Array:
    before = 0.0 if bias is None else bias.load().astype(np.float64)
    return stored_form((before - mean.load().astype(np.float64)) * factor() + shift.load(), like.dtype)
