"""Activations with settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.importers.torch_files.node import Node
from openinfer.importers.torch_files.registry import translates

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.values import Value


@translates("gelu")
def _gelu(node: Node) -> Value:
    tanh = node.get("approximate") == "tanh"
    return node.call("gelu", node.tensor(), **({"approximate": "tanh"} if tanh else {}))


@translates("leaky_relu")
def _leaky_relu(node: Node) -> Value:
    return node.call("relu", node.tensor(), alpha=float(node.real("negative_slope")))


@translates("elu")
def _elu(node: Node) -> Value:
    """scale (x where x > 0, else alpha (e^(input_scale x) - 1))."""
    x, alpha, scale = node.tensor(), float(node.real("alpha")), float(node.real("scale"))
    if node.real("input_scale") != 1:
        node.refuse(f"input_scale={node.real('input_scale')}")
    made = node.call("elu", x, alpha=alpha)
    return made if scale == 1 else node.call("mul", made, node.number(scale, x.dtype))


@translates("selu", "hardsigmoid", "log_sigmoid")
def _fixed(node: Node) -> Value:
    x = node.tensor()
    match node.op:
        case "selu":
            return node.call("selu", x)
        case "hardsigmoid":
            return node.call("hard_sigmoid", x, alpha=1 / 6, beta=0.5)
        case _:
            return node.call("neg", node.call("softplus", node.call("neg", x)))


@translates("celu")
def _celu(node: Node) -> Value:
    return node.onnx("Celu", node.tensor(), alpha=float(node.real("alpha")))


@translates("softplus")
def _softplus(node: Node) -> Value:
    """log(1 + e^(beta x)) / beta, and x itself from a threshold on."""
    x, beta, threshold = node.tensor(), float(node.real("beta")), float(node.real("threshold"))
    scaled = x if beta == 1 else node.call("mul", x, node.number(beta, x.dtype))
    made = node.call("softplus", scaled)
    if beta != 1:
        made = node.call("div", made, node.number(beta, x.dtype))
    if threshold >= 20:
        # There both are the same to the last bit.
        return made if x.dtype.name != "f64" else _above(node, scaled, threshold, x, made)
    return _above(node, scaled, threshold, x, made)


def _above(node: Node, compared: Value, threshold: float, x: Value, otherwise: Value) -> Value:
    is_above = node.call("gt", compared, node.number(threshold, compared.dtype))
    return node.call("where", is_above, x, otherwise)


@translates("threshold")
def _threshold(node: Node) -> Value:
    x = node.tensor()
    low, value = (node.of_type(node.operand(name), x.dtype) for name in ("threshold", "value"))
    return node.call("where", node.call("le", x, low), value, x)


@translates("hardshrink", "softshrink")
def _shrink(node: Node) -> Value:
    lambd = float(node.real("lambd"))
    bias = lambd if node.op == "softshrink" else 0.0
    return node.onnx("Shrink", node.tensor(), lambd=lambd, bias=bias)


@translates("prelu", "_prelu_kernel")
def _prelu(node: Node) -> Value:
    x, slope = node.tensor(), node.tensor("weight")
    if slope.rank == 1 and x.rank > 1 and slope.dims[0] != 1:
        slope = node.reshaped(slope, (slope.dims[0], *[1] * (x.rank - 2)))
    return node.call("prelu", x, slope)


@translates("glu")
def _glu(node: Node) -> Value:
    value, gate = node.emit.ops("split", [node.tensor()], {"axis": node.axis(), "parts": 2})
    return node.call("mul", value, node.call("sigmoid", gate))


@translates("dropout", "native_dropout", "alpha_dropout", "feature_dropout")
def _dropout(node: Node) -> tuple[Value | None, ...] | Value:
    if node.flag("train"):
        node.refuse("train=True: call eval() on the module before the export")
    x = node.call("identity", node.tensor("input"))
    return (x, None) if node.op == "native_dropout" else x
