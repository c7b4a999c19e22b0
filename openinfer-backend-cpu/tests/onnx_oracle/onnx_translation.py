"""What single ONNX nodes are in OpenInfer: one operator, or a few applied to each other.

Inputs that ONNX gives as tensors and OpenInfer as settings are read from the data of the node. What has no counterpart
raises `UntranslatableError` with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"


class UntranslatableError(Exception):
    """A node that OpenInfer has no counterpart for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node with its data. Outputs are those expected, None where the node leaves one out."""

    op: str
    opset: int
    attributes: Mapping[str, Any]
    inputs: Sequence[Array | None]
    outputs: Sequence[Array | None]

    def input(self, position: int) -> Array | None:
        return self.inputs[position] if position < len(self.inputs) else None

    def given(self, position: int) -> Array:
        found = self.input(position)
        if found is None:
            raise UntranslatableError(f"{self.op} without input {position}")
        return found

    def get(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    def require(self, name: str, *values: Any) -> None:
        """Refuse an attribute that is given and has none of these values."""
        if name in self.attributes and self.attributes[name] not in values:
            raise UntranslatableError(f"{self.op} with {name}={self.attributes[name]}")


@dataclass(frozen=True, slots=True)
class Call:
    """An operator applied to arrays and to the first results of other calls.

    ``declared`` stand for the outputs, in type and shape, where the operator takes these from there.
    """

    op: str
    inputs: Sequence[Array | Call | None]
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    declared: Sequence[Array] = ()


Translator: TypeAlias = Callable[[Node], Call]
TRANSLATORS: dict[str, Translator] = {}


def of(*names: str) -> Callable[[Translator], Translator]:
    def add(translator: Translator) -> Translator:
        TRANSLATORS.update(dict.fromkeys(names, translator))
        return translator

    return add


def translated(node: Node) -> Call:
    """Return a node in OpenInfer's operators; its results are the first of the outputs that the node has.

    Raises:
        UntranslatableError: there is no counterpart.
    """
    if node.op not in TRANSLATORS:
        raise UntranslatableError("no operator of that kind")
    return TRANSLATORS[node.op](node)


# Elementwise

SAME = {
    "Abs": "abs",
    "Add": "add",
    "And": "and",
    "BitwiseAnd": "and",
    "BitwiseNot": "not",
    "BitwiseOr": "or",
    "BitwiseXor": "xor",
    "Ceil": "ceil",
    "Cos": "cos",
    "Equal": "eq",
    "Erf": "erf",
    "Exp": "exp",
    "Floor": "floor",
    "GlobalAveragePool": "global_avg_pool",
    "GlobalMaxPool": "global_max_pool",
    "Greater": "gt",
    "GreaterOrEqual": "ge",
    "HardSwish": "hard_swish",
    "Identity": "identity",
    "IsNaN": "is_nan",
    "Less": "lt",
    "LessOrEqual": "le",
    "Log": "log",
    "MatMul": "matmul",
    "Mish": "mish",
    "Mul": "mul",
    "Neg": "neg",
    "Not": "not",
    "Or": "or",
    "PRelu": "prelu",
    "Relu": "relu",
    "Sigmoid": "sigmoid",
    "Sin": "sin",
    "Softplus": "softplus",
    "Sqrt": "sqrt",
    "Sub": "sub",
    "Tan": "tan",
    "Tanh": "tanh",
    "Where": "where",
    "Xor": "xor",
}
"""ONNX operators that take the same inputs here and no settings."""


@of(*SAME)
def _same(node: Node) -> Call:
    return Call(SAME[node.op], node.inputs)


SETTINGS: dict[str, tuple[str, dict[str, tuple[str, Any]]]] = {
    "BatchNormalization": ("batch_norm", {"epsilon": ("eps", 1e-5)}),
    "Elu": ("elu", {"alpha": ("alpha", 1.0)}),
    "Flatten": ("flatten", {"axis": ("axis", 1)}),
    "Gather": ("gather", {"axis": ("axis", 0)}),
    "GatherElements": ("gather_elements", {"axis": ("axis", 0)}),
    "GatherND": ("gather_nd", {"batch_dims": ("batch_dims", 0)}),
    "Gelu": ("gelu", {"approximate": ("approximate", "none")}),
    "GroupNormalization": ("group_norm", {"epsilon": ("eps", 1e-5), "num_groups": ("groups", None)}),
    "HardSigmoid": ("hard_sigmoid", {"alpha": ("alpha", 0.2), "beta": ("beta", 0.5)}),
    "InstanceNormalization": ("instance_norm", {"epsilon": ("eps", 1e-5)}),
    "LayerNormalization": ("layer_norm", {"axis": ("axis", -1), "epsilon": ("eps", 1e-5)}),
    "LeakyRelu": ("relu", {"alpha": ("alpha", 0.01)}),
    "LogSoftmax": ("log_softmax", {"axis": ("axis", -1)}),
    "LpNormalization": ("l2_norm", {"axis": ("axis", -1)}),
    "RMSNormalization": ("rms_norm", {"axis": ("axis", -1), "epsilon": ("eps", 1e-5)}),
    "ScatterElements": ("scatter", {"axis": ("axis", 0), "reduction": ("reduction", "none")}),
    "ScatterND": ("scatter_nd", {"reduction": ("reduction", "none")}),
    "Softmax": ("softmax", {"axis": ("axis", -1)}),
    "Swish": ("silu", {"alpha": ("beta", 1.0)}),
}
"""ONNX operators that take the same inputs and whose attributes are settings: names, and defaults of ONNX."""

FIXED: dict[str, dict[str, tuple[Any, ...]]] = {
    "BatchNormalization": {"training_mode": (0,)},
    "LayerNormalization": {"stash_type": (1,)},
    "RMSNormalization": {"stash_type": (1,)},
    "LpNormalization": {"p": (2,)},
}
"""Attributes of those that have one value here."""


@of(*SETTINGS)
def _settings(node: Node) -> Call:
    for name, values in FIXED.get(node.op, {}).items():
        node.require(name, *values)
    op, names = SETTINGS[node.op]
    return Call(op, node.inputs, {ours: node.get(name, default) for name, (ours, default) in names.items()})


@of("Div")
def _div(node: Node) -> Call:
    floats = node.given(0).dtype.kind == "f"
    return Call("div", node.inputs, {"div_by_zero_mask": "ieee"} if floats else {})


@of("Reciprocal")
def _reciprocal(node: Node) -> Call:
    return Call("recip", node.inputs, {"div_by_zero_mask": "ieee"})


@of("Pow")
def _pow(node: Node) -> Call:
    """Operands of two types go through that of the floats; the result has the type of the base."""
    a, b = node.given(0), node.given(1)
    floats = [x.dtype for x in (a, b) if x.dtype.kind not in "iu"]
    if a.dtype == b.dtype or not floats:
        return Call("pow", [a, b])
    result = Call("pow", [Call("cast", [x], {"to": floats[0]}) for x in (a, b)])
    return Call("cast", [result], {"to": a.dtype})


@of("Round")
def _round(node: Node) -> Call:
    return Call("round", node.inputs, {"mode": "half_even"})


@of("Sign")
def _sign(node: Node) -> Call:
    return Call("cast", [Call("sign", node.inputs)], {"to": node.given(0).dtype})


@of("Max", "Min")
def _extreme(node: Node) -> Call:
    return _chain(node, node.op.lower(), {"nan": "propagate"})


@of("Sum")
def _sum(node: Node) -> Call:
    return _chain(node, "add", {})


def _chain(node: Node, op: str, settings: dict[str, Any]) -> Call:
    if len(node.inputs) == 1:
        return Call("identity", node.inputs)
    found = Call(op, node.inputs[:2], settings)
    for more in node.inputs[2:]:
        found = Call(op, [found, more], settings)
    return found


@of("Mod")
def _mod(node: Node) -> Call:
    return Call("rem" if node.get("fmod", 0) else "mod", node.inputs)


@of("Clip")
def _clip(node: Node) -> Call:
    bounds = {name: node.input(position) for position, name in ((1, "min"), (2, "max"))}
    return Call("clamp", node.inputs[:1], {n: _number(b) for n, b in bounds.items() if b is not None})


@of("IsInf")
def _is_inf(node: Node) -> Call:
    node.require("detect_negative", 1)
    node.require("detect_positive", 1)
    return Call("is_inf", node.inputs)


@of("Selu")
def _selu(node: Node) -> Call:
    if "alpha" in node.attributes or "gamma" in node.attributes:
        raise UntranslatableError("Selu with alpha and gamma of its own")
    return Call("selu", node.inputs)


@of("BitShift")
def _bit_shift(node: Node) -> Call:
    """OpenInfer shifts all elements by as many bits: take one that is shifted by the same number as the first."""
    bits = np.broadcast_to(node.given(1), node.given(0).shape).reshape(-1)
    if len(set(bits.tolist())) > 1:
        raise UntranslatableError("BitShift by a number of bits for each element")
    return Call("shr" if node.get("direction") == "RIGHT" else "shl", node.inputs[:1], {"bits": int(bits[0])})


@of("Cast", "CastLike")
def _cast(node: Node) -> Call:
    x, result = node.given(0), node.outputs[0]
    assert result is not None
    given: Array | Call = x
    if result.dtype.name == "float8_e5m2" and node.get("saturate", 1):
        given = Call("clamp", [x], {"min": -57344.0, "max": 57344.0})
    return Call("cast", [given], {"to": result.dtype, "rounding_mode": "half_even", "saturate": False})


# Reductions, scans

REDUCTIONS = {
    "ReduceSum": "sum_axis",
    "ReduceMean": "mean_axis",
    "ReduceProd": "prod_axis",
    "ReduceMax": "max_axis",
    "ReduceMin": "min_axis",
    "ReduceL2": "l2_axis",
    "ReduceLogSumExp": "logsumexp_axis",
    "ReduceSumSquare": "sum_axis",
    "ReduceLogSum": "sum_axis",
    "ReduceL1": "sum_axis",
}


@of(*REDUCTIONS)
def _reduce(node: Node) -> Call:
    x, named = node.given(0), node.input(1)
    axes = node.get("axes", []) if named is None else named.tolist()
    if not axes and node.get("noop_with_empty_axes", 0):
        raise UntranslatableError(f"{node.op} over no axis")
    op = REDUCTIONS[node.op]
    settings: dict[str, Any] = {"axes": axes, "keepdims": bool(node.get("keepdims", 1))}
    if op in ("max_axis", "min_axis"):
        return _reduced_extreme(node, op, settings)
    before = {"ReduceSumSquare": "square", "ReduceL1": "abs"}.get(node.op)
    reduced = Call(op, [x if before is None else Call(before, [x])], settings)
    return Call("log", [reduced]) if node.op == "ReduceLogSum" else reduced


def _reduced_extreme(node: Node, op: str, settings: dict[str, Any]) -> Call:
    x = node.given(0)
    if x.size == 0:
        raise UntranslatableError(f"{node.op} of no elements, which OpenInfer refuses")
    if x.dtype == np.bool_:
        return Call("any_axis" if op == "max_axis" else "all_axis", [x], settings)
    return Call(op, [x], {**settings, "nan": "propagate"})


@of("ArgMax", "ArgMin")
def _arg(node: Node) -> Call:
    settings = {
        "axis": node.get("axis", 0),
        "keepdims": bool(node.get("keepdims", 1)),
        "select_first": not node.get("select_last_index", 0),
        "nan": "propagate",
    }
    return Call("argmax_axis" if node.op == "ArgMax" else "argmin_axis", node.inputs, settings)


@of("CumSum")
def _cumsum(node: Node) -> Call:
    names = {name: bool(node.get(name, 0)) for name in ("exclusive", "reverse")}
    return Call("cumsum", node.inputs[:1], {"axis": int(node.given(1)), **names})


@of("TopK")
def _topk(node: Node) -> Call:
    settings = {"k": int(node.given(1)[0]), "axis": node.get("axis", -1), "largest": bool(node.get("largest", 1))}
    if not node.get("sorted", 1):
        raise UntranslatableError("TopK in any order")
    return Call("topk", node.inputs[:1], settings)


# Data movement


@of("Concat")
def _concat(node: Node) -> Call:
    return Call("concat", node.inputs, {"axis": node.get("axis")})


@of("DepthToSpace", "SpaceToDepth")
def _depth(node: Node) -> Call:
    settings: dict[str, Any] = {"block": node.get("blocksize")}
    if node.op == "DepthToSpace":
        return Call("depth_to_space", node.inputs, {**settings, "mode": node.get("mode", "DCR")})
    node.require("mode", "DCR")
    return Call("space_to_depth", node.inputs, settings)


@of("Expand")
def _expand(node: Node) -> Call:
    return Call("expand", node.inputs[:1], {"shape": node.given(1).tolist()})


@of("Reshape")
def _reshape(node: Node) -> Call:
    shape = node.given(1).tolist()
    if node.get("allowzero", 0) and 0 in shape:
        raise UntranslatableError("Reshape where 0 is a size")
    return Call("reshape", node.inputs[:1], {"shape": shape})


@of("Slice")
def _slice(node: Node) -> Call:
    names = ("starts", "ends", "axes", "steps")
    given = {name: node.input(position) for position, name in enumerate(names, start=1)}
    return Call("slice", node.inputs[:1], {name: list_.tolist() for name, list_ in given.items() if list_ is not None})


@of("Split")
def _split(node: Node) -> Call:
    sizes = node.input(1)
    parts = len(node.outputs) if sizes is None else None
    settings = {"parts": parts} if sizes is None else {"sizes": sizes.tolist()}
    return Call("split", node.inputs[:1], {"axis": node.get("axis", 0), **settings})


@of("Squeeze", "Unsqueeze")
def _squeeze(node: Node) -> Call:
    axes = node.input(1)
    return Call(node.op.lower(), node.inputs[:1], {} if axes is None else {"axes": axes.tolist()})


@of("Tile")
def _tile(node: Node) -> Call:
    return Call("tile", node.inputs[:1], {"repeats": node.given(1).tolist()})


@of("Transpose")
def _transpose(node: Node) -> Call:
    perm = node.get("perm")
    return Call("transpose", node.inputs, {} if perm is None else {"perm": perm})


@of("Trilu")
def _trilu(node: Node) -> Call:
    k = node.input(1)
    return Call("triu" if node.get("upper", 1) else "tril", node.inputs[:1], {"k": 0 if k is None else int(k)})


@of("Pad")
def _pad(node: Node) -> Call:
    rank, value, axes = node.given(0).ndim, node.input(2), node.input(3)
    chosen = range(rank) if axes is None else [int(axis) % rank for axis in axes]
    pads = [0] * (2 * rank)
    begin, end = np.split(node.given(1), 2)
    for axis, before, after in zip(chosen, begin, end, strict=True):
        pads[axis], pads[rank + axis] = int(before), int(after)
    settings: dict[str, Any] = {"pads": pads, "mode": node.get("mode", "constant")}
    return Call("pad", node.inputs[:1], settings if value is None else {**settings, "value": _number(value)})


@of("OneHot")
def _one_hot(node: Node) -> Call:
    values, indices = node.given(2), node.given(0)
    if indices.dtype.kind == "f":
        raise UntranslatableError("OneHot of floats")
    settings = {"depth": int(node.given(1)), "on": _number(values[1]), "off": _number(values[0])}
    return Call("one_hot", [indices], {**settings, "axis": node.get("axis", -1)}, _declared(node))


@of("ConstantOfShape")
def _constant_of_shape(node: Node) -> Call:
    value = node.get("value", np.zeros(1, np.float32))
    return Call("fill", [np.zeros(node.given(0).tolist(), value.dtype)], {"value": _number(value)})


@of("Range")
def _range(node: Node) -> Call:
    start, limit, step = (_number(each) for each in node.inputs if each is not None)
    return Call("range", [], {"start": start, "limit": limit, "step": step}, _declared(node))


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
    """Return the result with the heads beside each other where the queries came so."""
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
    return Call("quantize_linear", _quantised(node), _blocks(node), _declared(node))


@of("DequantizeLinear")
def _dequantize(node: Node) -> Call:
    return Call("dequantize_linear", _quantised(node), _blocks(node), _declared(node))


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


def _number(value: Array) -> Any:
    return np.asarray(value).reshape(-1)[0].item()


def _declared(node: Node) -> list[Array]:
    return [output for output in node.outputs if output is not None]
