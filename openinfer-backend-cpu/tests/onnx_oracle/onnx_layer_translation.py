"""Linear algebra, windows, attention, recurrent cells and quantisation of ONNX, in OpenInfer."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx_translation import Array, Call, Node, UntranslatableError, declared_of, of

# Linear algebra, convolution, pooling


@of("Gemm")
def _gemm(node: Node) -> Call:
    a, b, c = node.given(0), node.given(1), node.input(2)
    trans_a, alpha, beta = node.get("transA", 0), node.get("alpha", 1.0), node.get("beta", 1.0)
    if c is not None and c.shape == b.shape[1:] and not trans_a and alpha == beta == 1.0:
        return Call("linear", [a, b, c], {"trans_w": bool(node.get("transB", 0))})
    product = Call("matmul", [a, b], {"trans_a": bool(trans_a), "trans_b": bool(node.get("transB", 0))})
    product = Call("mul", [product, np.array(alpha, a.dtype)])
    return product if c is None else Call("add", [product, Call("mul", [c, np.array(beta, a.dtype)])])


@of("Einsum")
def _einsum(node: Node) -> Call:
    return Call("einsum", node.inputs, {"equation": node.get("equation")})


def _windows(node: Node, dims: int) -> dict[str, Any]:
    padding = node.get("auto_pad", "NOTSET").lower()
    pads = node.get("pads", [0] * (2 * dims))
    return {
        "stride": node.get("strides", [1] * dims),
        "padding": pads if padding == "notset" else padding,
        "dilation": node.get("dilations", [1] * dims),
    }


def _dims(node: Node, *most: int) -> int:
    dims = node.given(0).ndim - 2
    if dims not in most:
        raise UntranslatableError(f"{node.op} over {dims} dims")
    return dims


@of("Conv")
def _conv(node: Node) -> Call:
    dims = _dims(node, 1, 2)
    return Call(f"conv{dims}d", node.inputs, {**_windows(node, dims), "groups": node.get("group", 1)})


@of("ConvInteger")
def _conv_integer(node: Node) -> Call:
    return Call("conv_integer", node.inputs, {**_windows(node, _dims(node, 2)), "groups": node.get("group", 1)})


@of("ConvTranspose")
def _conv_transpose(node: Node) -> Call:
    dims = _dims(node, 2)
    if "output_shape" in node.attributes or "auto_pad" in node.attributes:
        raise UntranslatableError("ConvTranspose with padding chosen for its result")
    settings = {"groups": node.get("group", 1), "output_padding": node.get("output_padding", [0] * dims)}
    return Call("conv_transpose2d", node.inputs, {**_windows(node, dims), **settings})


@of("MaxPool")
def _max_pool(node: Node) -> Call:
    dims = _dims(node, 1, 2)
    settings = {"kernel": node.get("kernel_shape"), "ceil_mode": bool(node.get("ceil_mode", 0))}
    return Call(f"max_pool{dims}d", node.inputs, {**_windows(node, dims), **settings})


@of("AveragePool")
def _avg_pool(node: Node) -> Call:
    dims = _dims(node, 1, 2)
    node.require("dilations", [1] * dims)
    names = {name: bool(node.get(name, 0)) for name in ("ceil_mode", "count_include_pad")}
    windows = {name: value for name, value in _windows(node, dims).items() if name != "dilation"}
    return Call(f"avg_pool{dims}d", node.inputs, {"kernel": node.get("kernel_shape"), **windows, **names})


@of("Resize")
def _resize(node: Node) -> Call:
    """Nearest and linear of the last two dims; which of the neighbours is nearest is a setting of ONNX alone."""
    mode, place = node.get("mode", "nearest"), node.get("coordinate_transformation_mode", "half_pixel")
    for name, legal in (("antialias", 0), ("keep_aspect_ratio_policy", "stretch"), ("exclude_outside", 0)):
        node.require(name, legal)
    nearest = mode == "nearest" and (place, node.get("nearest_mode")) == ("asymmetric", "floor")
    if not nearest and (mode, place) != ("linear", "half_pixel"):
        raise UntranslatableError(f"Resize {mode} {place} {node.get('nearest_mode', '')}".strip())
    sizes, scales = node.input(3), node.input(2)
    if sizes is None and scales is not None and not all(float(s * n).is_integer() for s, n in _scaled(node, scales)):
        raise UntranslatableError("Resize by scales to sizes that are rounded, and places that are not")
    result = node.outputs[0]
    assert result is not None
    return Call("resize2d", node.inputs[:1], {"size": list(result.shape[2:]), "mode": mode})


def _scaled(node: Node, scales: Array) -> list[tuple[float, int]]:
    shape = node.given(0).shape
    return list(zip(scales.tolist(), shape[len(shape) - len(scales) :], strict=True))


# Attention and recurrent cells


@of("Attention")
def _attention(node: Node) -> Call:
    node.require("right_window_size", -1, 0)
    node.require("softmax_precision", 1)
    q, k, v = (_heads(node, x, n) for x, n in zip(node.inputs[:3], ("q", "kv", "kv"), strict=True))
    past = (node.input(4), node.input(5))
    before = 0
    if past[0] is not None and past[1] is not None:
        k, v, before = np.concatenate([past[0], k], 2), np.concatenate([past[1], v], 2), past[0].shape[2]
    settings = _attention_settings(node, before)
    mask = node.input(3)
    if mask is not None and mask.ndim == 3:
        mask = mask[None]
    if mask is not None and mask.shape[-1] not in (1, k.shape[2]):
        raise UntranslatableError("Attention with a mask of fewer keys")
    return _folded(node, Call("sdpa", [q, k, v, mask], settings))


def _attention_settings(node: Node, before: int) -> dict[str, Any]:
    settings: dict[str, Any] = {"causal": bool(node.get("is_causal", 0)), "softcap": node.get("softcap", 0.0)}
    if "scale" in node.attributes:
        settings["scale"] = node.get("scale")
    settings["q_offset"] = before
    lengths = node.input(6)
    if lengths is not None:
        if len(set(lengths.tolist())) > 1:
            raise UntranslatableError("Attention with as many keys as each sequence has")
        settings["kv_len"] = int(lengths[0])
        settings["q_offset"] = int(lengths[0]) - node.given(0).shape[-2]
    window = node.get("left_window_size", -1)
    if window >= 0 and not settings["causal"]:
        raise UntranslatableError("Attention with a window that is not causal")
    return {**settings, "window": window}


def _heads(node: Node, x: Array | None, whose: str) -> Array:
    assert x is not None
    if x.ndim == 4:
        return x
    heads = node.get(f"{whose}_num_heads")
    return np.ascontiguousarray(x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3))


def _folded(node: Node, found: Call) -> Call:
    """Return the result with the heads concatenated if the queries had that form."""
    if node.given(0).ndim == 4:
        return found
    together = Call("transpose", [found], {"perm": [0, 2, 1, 3]})
    return Call("reshape", [together], {"shape": [0, 0, -1]})


@of("RotaryEmbedding")
def _rotary(node: Node) -> Call:
    x, settings = node.given(0), {"rotary_dim": node.get("rotary_embedding_dim", 0)}
    settings["interleaved"] = bool(node.get("interleaved", 0))
    if x.ndim == 3:
        heads = x.reshape(*x.shape[:2], node.get("num_heads"), -1)
        turned = Call("rope_cached", [heads, *node.inputs[1:]], {**settings, "seq_axis": -3})
        return Call("reshape", [turned], {"shape": list(x.shape)})
    return Call("rope_cached", node.inputs, settings)


@of("LSTM", "GRU")
def _recurrent(node: Node) -> Call:
    """One step in one direction."""
    x, w, r, b = node.given(0), node.given(1), node.given(2), node.input(3)
    node.require("direction", "forward")
    node.require("layout", 0)
    if x.shape[0] != 1:
        raise UntranslatableError(f"{node.op} of several steps")
    if node.input(7) is not None:
        raise UntranslatableError("LSTM with peepholes")
    start = node.input(5)
    h = np.zeros((x.shape[1], r.shape[2]), x.dtype) if start is None else start[0]
    bias = None if b is None else b[0]
    if node.op == "LSTM":
        state = Call("lstm_cell", [x[0], h, np.zeros_like(h), w[0], r[0], bias])
    else:
        settings = {"linear_before_reset": bool(node.get("linear_before_reset", 0))}
        state = Call("gru_cell", [x[0], h, w[0], r[0], bias], settings)
    return Call("unsqueeze", [state], {"axes": [0]})


# Quantisation


@of("QuantizeLinear")
def _quantize(node: Node) -> Call:
    node.require("precision", 0, 1)
    return Call("quantize_linear", _quantised(node), _blocks(node), declared_of(node))


@of("DequantizeLinear")
def _dequantize(node: Node) -> Call:
    return Call("dequantize_linear", _quantised(node), _blocks(node), declared_of(node))


def _quantised(node: Node) -> list[Array | None]:
    """Return the inputs; the zero point of f8, which says no more than the type, is left out."""
    scale, zero = node.given(1), node.input(2)
    if zero is None or zero.dtype.name == "float8_e5m2":
        return [*node.inputs[:2], None]
    return [*node.inputs[:2], zero.reshape(scale.shape)]


def _blocks(node: Node) -> dict[str, Any]:
    axis = {} if node.given(1).ndim == 0 else {"axis": node.get("axis", 1)}
    return {**axis, "block_size": node.get("block_size", 0)}


@of("DynamicQuantizeLinear")
def _dynamic_quantize(node: Node) -> Call:
    return Call("dynamic_quantize_linear", node.inputs)


@of("MatMulInteger")
def _matmul_integer(node: Node) -> Call:
    zeros = [x if x is None or x.size > 1 else x.reshape(()) for x in node.inputs[2:]]
    return Call("matmul_integer", [*node.inputs[:2], *zeros])


@of("QLinearMatMul")
def _qlinear_matmul(node: Node) -> Call:
    scalars = [x if x is None or position in (0, 3) else x.reshape(()) for position, x in enumerate(node.inputs)]
    return Call("qlinear_matmul", scalars)
