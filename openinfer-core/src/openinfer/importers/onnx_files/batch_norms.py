"""Batch norms, and constant factors and terms of channels, folded into the weights of the layer before.

Exact but for rounding.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from openinfer.importers.onnx_files.elements import stored_form
from openinfer.importers.onnx_files.rewriting import Calls
from openinfer.importers.onnx_files.sizes import is_number
from openinfer.importers.onnx_files.source import Payload
from openinfer.importers.onnx_files.unused import without_unused
from openinfer.importers.onnx_files.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openinfer.dtypes import DType
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


def without_channel_constants(program: Program) -> int:
    """Fold factors and terms of each channel into the layers before them; return how many were."""
    calls = Calls(program)
    folded = sum(_absorbed(calls, call) for call in program.calls if call.op in ("mul", "div", "add", "sub"))
    without_unused(program)
    return folded


def _absorbed(calls: Calls, call: Call) -> bool:
    """Make a layer and a constant for each of its channels one layer."""
    a, b = call.inputs
    is_factor = call.op in ("mul", "div")
    for x, constant in ((a, b), (b, a)) if call.op in ("mul", "add") else ((a, b),):
        layer = calls.inner(x, *LAYERS)
        if layer is None or x is None or constant is None or not _is_foldable(layer, [*layer.inputs[1:], constant]):
            continue
        w, bias = layer.inputs[1], layer.inputs[2]
        if w is None or call.outputs[0].dims != x.dims or (is_factor and calls.count(w) > 1):
            continue
        by_channel = _by_channel(layer, x, constant)
        if by_channel is None or (call.op == "div" and not by_channel.load().all()):
            continue
        numbers = partial(_NUMBERS[call.op], by_channel)
        old = None if bias is None else bias.known
        dims = (x.dims[_channel_axis(layer, x)],)
        if is_factor:
            scaled = partial(_scaled, w.known, numbers, _output_axis(layer))
            weights = Value(w.name, w.dtype, w.dims, Payload(w.dtype, w.known.shape, scaled))
            row = None if old is None else Payload(w.dtype, by_channel.shape, partial(_multiplied, old, numbers))
        else:
            weights, row = w, Payload(w.dtype, by_channel.shape, partial(_added, old, numbers, w.dtype))
        named = constant if bias is None else bias
        shifts = None if row is None else Value(named.name, w.dtype, dims, row)
        stage = layer.stage
        calls.replace(call, layer.op, [layer.inputs[0], weights, shifts], dict(layer.settings))
        call.stage = stage
        return True
    return False


def _by_channel(layer: Call, x: Value, constant: Value) -> Payload | None:
    """Return a constant as a row with an element for each channel of a layer's result; None where it varies else."""
    axis = _channel_axis(layer, x)
    if axis < 0 or constant.rank > x.rank:
        return None
    count, place = x.dims[axis], axis - x.rank + constant.rank
    if not is_number(count):
        return None
    if any(dim != 1 for position, dim in enumerate(constant.dims) if position != place):
        return None
    known = constant.known
    if known.count not in (1, count):
        return None
    return Payload(known.dtype, (count,), lambda: np.broadcast_to(known.load().reshape(-1), (count,)))


def _channel_axis(layer: Call, x: Value) -> int:
    """Return the axis of a layer's result that counts channels."""
    return x.rank - 1 if layer.op == "linear" else x.rank - 2 if layer.op == "conv1d" else x.rank - 3


def _output_axis(layer: Call) -> int:
    """Return the axis of a layer's weights that counts the channels of its result."""
    return 0 if layer.op != "linear" or layer.settings.get("trans_w") else 1


def _is_foldable(layer: Call, parameters: Sequence[Value | None]) -> bool:
    present = [value for value in parameters if value is not None]
    return not layer.settings.get("acc") and all(v.is_known and v.dtype.name in ("f32", "f64") for v in present)


def _unchanged(constant: Payload) -> Array:
    return constant.load().astype(np.float64)


def _negated(constant: Payload) -> Array:
    return -constant.load().astype(np.float64)


def _reciprocal(constant: Payload) -> Array:
    return 1.0 / constant.load().astype(np.float64)


_NUMBERS = {"mul": _unchanged, "add": _unchanged, "div": _reciprocal, "sub": _negated}
"""What the weights are multiplied by, or the bias is increased by, for each operator."""


def _added(bias: Payload | None, shift: Callable[[], Array], dtype: DType) -> Array:
    before = 0.0 if bias is None else bias.load().astype(np.float64)
    return stored_form(before + shift(), dtype)


def _multiplied(bias: Payload, factor: Callable[[], Array]) -> Array:
    return stored_form(bias.load().astype(np.float64) * factor(), bias.dtype)


def _folded(calls: Calls, norm: Call) -> bool:
    layer = calls.inner(norm.inputs[0], *LAYERS)
    if layer is None or not _is_foldable(layer, [*layer.inputs[1:], *norm.inputs[1:]]):
        return False
    w, bias = layer.inputs[1], layer.inputs[2]
    if w is None or (layer.op == "linear" and norm.outputs[0].rank != 2):
        return False
    axis = _output_axis(layer)
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


def _scaled(weights: Payload, factor: Callable[[], Array], axis: int) -> Array:
    array = weights.load()
    by_channel = factor().reshape([-1 if dim == axis else 1 for dim in range(array.ndim)])
    return stored_form(array.astype(np.float64) * by_channel, weights.dtype)


def _shifted(bias: Payload | None, mean: Payload, shift: Payload, factor: partial[Array], like: Payload) -> Array:
    before = 0.0 if bias is None else bias.load().astype(np.float64)
    return stored_form((before - mean.load().astype(np.float64)) * factor() + shift.load(), like.dtype)
