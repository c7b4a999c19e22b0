"""Linear algebra, normalisation, windows, attention and quantisation in ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx_comparisons import Array, Asked, IncomparableError, ask, of

# Linear algebra, normalisation, convolution, pooling


@of("matmul")
def _matmul(call: Asked) -> Array:
    call.refuse("acc")
    a, b = (
        np.ascontiguousarray(x.swapaxes(-1, -2)) if call.get(name) and x.ndim > 1 else x
        for x, name in zip(call.inputs, ("trans_a", "trans_b"), strict=True)
    )
    if a.dtype == np.bool_:
        raise IncomparableError("ONNX multiplies no bools")
    return ask("MatMul", a, b)


@of("linear")
def _linear(call: Asked) -> Array:
    x, w, bias = call.inputs
    product = ask("MatMul", x, ask("Transpose", w, perm=[1, 0]) if call.get("trans_w") else w)
    return product if bias is None else ask("Add", product, bias)


@of("einsum")
def _einsum(call: Asked) -> Array:
    return ask("Einsum", *call.inputs, equation=call.get("equation"))


@of("layer_norm")
def _layer_norm(call: Asked) -> Array:
    x, scale, bias = call.inputs
    axis = call.get("axis")
    ones = np.ones(x.shape[axis:], x.dtype)
    found = ask("LayerNormalization", x, ones if scale is None else scale, axis=axis, epsilon=call.get("eps"))
    return found if bias is None else ask("Add", found, bias)


@of("rms_norm")
def _rms_norm(call: Asked) -> Array:
    x, scale = call.inputs
    axis = call.get("axis")
    ones = np.ones(x.shape[axis:], x.dtype)
    return ask("RMSNormalization", x, ones if scale is None else scale, axis=axis, epsilon=call.get("eps"))


@of("batch_norm")
def _batch_norm(call: Asked) -> Array:
    return ask("BatchNormalization", *call.inputs, opset=15, epsilon=call.get("eps"))


@of("group_norm")
def _group_norm(call: Asked) -> Array:
    if call.x.size == 0:
        raise IncomparableError("the evaluator cannot normalise nothing")
    return ask("GroupNormalization", *call.inputs, num_groups=call.get("groups"), epsilon=call.get("eps"))


@of("instance_norm")
def _instance_norm(call: Asked) -> Array:
    return ask("InstanceNormalization", *call.inputs, epsilon=call.get("eps"))


@of("l2_norm")
def _l2_norm(call: Asked) -> Array:
    if call.x.ndim == 0:
        raise IncomparableError("ONNX divides by norms along a dim")
    return ask("LpNormalization", call.x, axis=call.get("axis"), p=2)


def _windows(call: Asked, dims: int) -> dict[str, Any]:
    def each(name: str) -> list[int]:
        value = call.settings.get(name, 1)
        return [value] * dims if isinstance(value, int) else list(value)

    found: dict[str, Any] = {"strides": each("stride"), "dilations": each("dilation")}
    padding = call.get("padding")
    if isinstance(padding, str):
        return {**found, "auto_pad": padding.upper()}
    pads = [padding] * (2 * dims) if isinstance(padding, int) else list(padding)
    return {**found, "pads": pads if len(pads) == 2 * dims else pads * 2}


@of("conv1d", "conv2d", "conv_integer")
def _conv(call: Asked) -> Array:
    if call.settings.get("acc") is not None or call.x.size == 0:
        raise IncomparableError("acc, or nothing to convolve")
    theirs, opset = ("ConvInteger", 10) if call.op == "conv_integer" else ("Conv", 22)
    windows = _same_sized(call, call.inputs[1].shape[2:])
    return ask(theirs, *call.inputs, opset=opset, group=call.get("groups"), **windows)


def _same_sized(call: Asked, kernel: Sequence[int]) -> dict[str, Any]:
    """Return the windows, padding by name worked out, which the evaluator does for few of them."""
    dims = call.x.ndim - 2
    windows = _windows(call, dims)
    auto = windows.pop("auto_pad", "VALID")
    if auto == "VALID":
        return windows
    before, after = [], []
    for axis in range(dims):
        size, stride = call.x.shape[2 + axis], windows["strides"][axis]
        reach = windows["dilations"][axis] * (kernel[axis] - 1) + 1
        total = max((-(-size // stride) - 1) * stride + reach - size, 0)
        small, great = total // 2, total - total // 2
        before.append(great if auto == "SAME_LOWER" else small)
        after.append(small if auto == "SAME_LOWER" else great)
    return {**windows, "pads": before + after}


@of("conv_transpose2d")
def _conv_transpose(call: Asked) -> Array:
    call.refuse("groups", 1)
    padding = call.get("output_padding")
    if isinstance(call.get("padding"), str):
        raise IncomparableError("the evaluator pads for twice the size")
    output = [padding] * 2 if isinstance(padding, int) else list(padding)
    return ask("ConvTranspose", *call.inputs, opset=22, output_padding=output, **_windows(call, 2))


@of("global_avg_pool", "global_max_pool")
def _global_pool(call: Asked) -> Array:
    if call.x.ndim != 4 or call.x.size == 0:
        raise IncomparableError("the evaluator pools images")
    return ask({"global_avg_pool": "GlobalAveragePool", "global_max_pool": "GlobalMaxPool"}[call.op], call.x)


@of("max_pool1d", "max_pool2d", "avg_pool1d", "avg_pool2d")
def _pool(call: Asked) -> Array:
    dims = call.x.ndim - 2
    if call.x.size == 0 or (isinstance(call.get("padding"), str) and call.get("ceil_mode")):
        raise IncomparableError("the evaluator cannot pool nothing, nor round sizes up that padding makes")
    kernel = call.get("kernel")
    sizes = [kernel] * dims if isinstance(kernel, int) else list(kernel)
    attributes = {**_same_sized(call, sizes), "kernel_shape": sizes, "ceil_mode": int(call.get("ceil_mode"))}
    if call.op.startswith("avg"):
        attributes["count_include_pad"] = int(call.get("count_include_pad"))
        del attributes["dilations"]
    # The evaluator pads with NaN, which integers do not hold.
    x = call.x if call.x.dtype.kind == "f" else call.x.astype(np.float64)
    return ask("MaxPool" if call.op.startswith("max") else "AveragePool", x, opset=22, **attributes)


# Attention and recurrent cells


@of("sdpa")
def _sdpa(call: Asked) -> Array:
    """Attention with the keys that each query sees spelled out, as its default offset depends on the opset."""
    q, k, v, mask = call.inputs
    extra = 4 - q.ndim
    q, k, v = (x.reshape(*[1] * extra, *x.shape) for x in (q, k, v))
    length = k.shape[2] if call.get("kv_len") in (None, "auto") else call.get("kv_len")
    offset = length - q.shape[2] if call.get("q_offset") in (None, "auto") else call.get("q_offset")
    rows, keys = np.indices((q.shape[2], k.shape[2]))
    seen = keys < length
    if call.get("causal"):
        seen &= keys <= rows + offset
        if call.get("window") >= 0:
            seen &= keys >= rows + offset - call.get("window")
    if not seen.any(axis=1).all() or 0 in (*k.shape, *q.shape):
        raise IncomparableError("a query that sees nothing")
    bias = np.where(seen, 0.0, -np.inf).astype(q.dtype)
    if mask is not None:
        bias = bias + (np.where(mask, 0.0, -np.inf).astype(q.dtype) if mask.dtype == np.bool_ else mask)
    attributes = {} if call.get("scale") in (None, "auto") else {"scale": call.get("scale")}
    scores = (*q.shape[:3], k.shape[2])
    found = ask("Attention", q, k, v, np.broadcast_to(bias, scores), softcap=call.get("softcap"), **attributes)
    return found.reshape(call.outputs[0].shape)


@of("rope", "rope_cached")
def _rope(call: Asked) -> Array:
    """RotaryEmbedding of [B, H, S, D] with a cache of the angles."""
    x, axis = call.x, call.get("seq_axis")
    moved = np.moveaxis(x, axis, -2)
    heads = moved.reshape(
        -1 if moved.ndim > 3 else 1,
        int(np.prod(moved.shape[1:-2])) if moved.ndim > 3 else int(np.prod(moved.shape[:-2])),
        *moved.shape[-2:],
    )
    if x.size == 0:
        raise IncomparableError("nothing to turn")
    count = call.get("rotary_dim") or x.shape[-1]
    cos, sin = _angles(call, count) if call.op == "rope" else _cached(call)
    cos, sin = (np.broadcast_to(table, (heads.shape[0], *table.shape[-2:])).astype(x.dtype) for table in (cos, sin))
    found = ask(
        "RotaryEmbedding", heads, cos, sin, interleaved=int(call.get("interleaved")), rotary_embedding_dim=count
    )
    return np.moveaxis(found.reshape(moved.shape), -2, axis)


def _angles(call: Asked, count: int) -> tuple[Array, Array]:
    steps = np.arange(0, count, 2) / count
    turns = call.inputs[1][..., None] * call.get("freq_scale") / call.get("base") ** steps
    return np.cos(turns), np.sin(turns)


def _cached(call: Asked) -> tuple[Array, Array]:
    _, cos, sin, pos = call.inputs
    return (cos, sin) if pos is None else (cos[pos], sin[pos])


@of("lstm_cell", "gru_cell")
def _cell(call: Asked) -> Array | list[Array]:
    """LSTM or GRU over a sequence of one."""
    x, h = call.x, call.inputs[1]
    if x.size == 0:
        raise IncomparableError("a batch of nothing")
    sequence, start = x.reshape(1, -1, x.shape[-1]), h.reshape(1, -1, h.shape[-1])
    w, r, b = (None if weights is None else weights[None] for weights in call.inputs[-3:])
    if call.op == "gru_cell":
        flag = int(call.get("linear_before_reset"))
        attributes = {"hidden_size": h.shape[-1], "linear_before_reset": flag}
        state = ask("GRU", sequence, w, r, b, None, start, outputs=2, opset=14, **attributes)[1]
        return state.reshape(h.shape)
    c = call.inputs[2].reshape(start.shape)
    found = ask("LSTM", sequence, w, r, b, None, start, c, outputs=3, opset=14, hidden_size=h.shape[-1])
    return [state.reshape(h.shape) for state in found[1:]]


# Quantisation


@of("quantize_linear")
def _quantize(call: Asked) -> Array:
    x, scale, zero = call.inputs
    wanted = call.outputs[0].dtype
    if wanted.name not in ("u8", "i8", "u16", "i16"):
        raise IncomparableError("types of NumPy alone")
    given = np.zeros(scale.shape, wanted.storage) if zero is None else zero
    return ask("QuantizeLinear", x, scale, given, **_blocks(call))


@of("dequantize_linear")
def _dequantize(call: Asked) -> Array:
    x, scale, zero = call.inputs
    return ask("DequantizeLinear", x, scale, zero, **_blocks(call))


def _blocks(call: Asked) -> dict[str, int]:
    if call.x.size == 0:
        raise IncomparableError("nothing to quantise")
    axis = {} if call.inputs[1].ndim == 0 else {"axis": call.get("axis")}
    return {**axis, "block_size": call.get("block_size")}


@of("dynamic_quantize_linear")
def _dynamic(call: Asked) -> list[Array]:
    if call.x.size == 0 or call.x.dtype != np.float32:
        raise IncomparableError("ONNX takes f32 alone")
    return ask("DynamicQuantizeLinear", call.x, outputs=3)


@of("matmul_integer")
def _matmul_integer(call: Asked) -> Array:
    a, b, a_zero, b_zero = (None if x is None else x.astype(np.int32) for x in call.inputs)
    if a_zero is not None:
        a = ask("Sub", a, a_zero[:, None] if a_zero.ndim else a_zero)
    if b_zero is not None:
        b = ask("Sub", b, b_zero)
    return ask("MatMul", a, b)


@of("qlinear_matmul")
def _qlinear_matmul(call: Asked) -> Array:
    if any(x.ndim for position, x in enumerate(call.inputs) if position not in (0, 3)):
        raise IncomparableError("the evaluator takes one scale for a tensor")
    return ask("QLinearMatMul", *call.inputs)


@of("qmatmul")
def _qmatmul(call: Asked) -> Array:
    x, w, scale, zero, bias = call.inputs
    group = call.get("group_size")
    if call.get("trans_w"):
        w, scale, zero = (None if each is None else each.T if each.ndim == 2 else each for each in (w, scale, zero))
    if group:
        scale, zero = (None if each is None else np.repeat(each, group, axis=0) for each in (scale, zero))
    w = w.astype(x.dtype) if zero is None else ask("Sub", w.astype(x.dtype), zero.astype(x.dtype))
    found = ask("MatMul", x, ask("Mul", w, scale))
    return found if bias is None else ask("Add", found, bias)
