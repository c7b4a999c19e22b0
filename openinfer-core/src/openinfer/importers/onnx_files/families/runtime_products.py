"""Products, convolutions and activations that ONNX Runtime's optimiser fuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.importers.onnx_files.families.elementwise import short_float
from openinfer.importers.onnx_files.families.products import gemm
from openinfer.importers.onnx_files.families.windows import conv, groups, spatial, windows
from openinfer.importers.onnx_files.node import Node
from openinfer.importers.onnx_files.registry import contributed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from openinfer.importers.onnx_files.values import Setting, Value

WINDOW = "auto_pad dilations group kernel_shape pads strides"


@contributed("FusedMatMul", attributes="alpha transA transB transBatchA transBatchB")
def _fused_matmul(node: Node) -> Value:
    a, b = (_batch_last(node, node.given(position), f"transBatch{'AB'[position]}") for position in (0, 1))
    settings: dict[str, Setting] = {}
    # Of a vector nothing is transposed.
    settings |= {"trans_a": True} if node.flag("transA") and a.rank > 1 else {}
    settings |= {"trans_b": True} if node.flag("transB") and b.rank > 1 else {}
    product, alpha = node.call("matmul", a, b, **settings), node.real("alpha", 1.0)
    return product if alpha == 1.0 else node.call("mul", product, node.number(alpha, product.dtype))


def _batch_last(node: Node, x: Value, attribute: str) -> Value:
    """Return x [M, batch..., K] as [batch..., M, K] where the attribute says that it is laid out so."""
    if not node.flag(attribute) or x.rank < 3:
        return x
    return node.call("transpose", x, perm=(*range(1, x.rank - 1), 0, x.rank - 1))


@contributed(
    "FusedGemm", attributes="activation activation_alpha activation_beta activation_gamma alpha beta transA transB"
)
def _fused_gemm(node: Node) -> Value:
    parameters = [float(node.get(f"activation_{name}", default)) for name, default in _parameters(node)]
    return activated(node, gemm(node), parameters)


def _parameters(node: Node) -> list[tuple[str, float]]:
    """Return the parameters of an activation as attributes of FusedGemm, with ONNX's defaults."""
    defaults = {"LeakyRelu": (0.01,), "Elu": (1.0,), "HardSigmoid": (0.2, 0.5)}
    return list(zip(("alpha", "beta"), defaults.get(node.get("activation", ""), ()), strict=False))


@contributed("FusedConv", attributes=f"activation activation_params {WINDOW}")
def _fused_conv(node: Node) -> Value:
    found, added = conv(node), node.input(3)
    if added is not None:
        found = node.call("add", found, added)
    return activated(node, found, [float(number) for number in node.get("activation_params", ())])


ACTIVATIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "Clip": ("clamp", ("min", "max")),
    "Elu": ("elu", ("alpha",)),
    "HardSigmoid": ("hard_sigmoid", ("alpha", "beta")),
    "HardSwish": ("hard_swish", ()),
    "LeakyRelu": ("relu", ("alpha",)),
    "Relu": ("relu", ()),
    "Sigmoid": ("sigmoid", ()),
    "Softplus": ("softplus", ()),
    "Tanh": ("tanh", ()),
}
"""Operators of activations, with the names of their settings in the order in which nodes give them."""


def activated(node: Node, x: Value, parameters: list[float]) -> Value:
    """Return x after the activation that the node has as an attribute."""
    name = node.get("activation", "")
    if not name:
        return x
    op, settings = ACTIVATIONS.get(name, ("", ()))
    if not op or len(settings) != len(parameters):
        node.refuse(f"activation={name} with {len(parameters)} parameters")
    return node.call(op, x, **dict(zip(settings, map(short_float, parameters), strict=True)))


@contributed("Gelu")
def _gelu(node: Node) -> Value:
    return node.call("gelu", node.given(0))


@contributed("BiasGelu")
def _bias_gelu(node: Node) -> Value:
    return node.call("gelu", node.call("add", node.given(0), node.given(1)))


@contributed("FastGelu")
def _fast_gelu(node: Node) -> Value:
    x, bias = node.given(0), node.input(1)
    return node.call("gelu", x if bias is None else node.call("add", x, bias), approximate="tanh")


@contributed("QuickGelu", attributes="alpha")
def _quick_gelu(node: Node) -> Value:
    return node.call("silu", node.given(0), beta=node.real("alpha", 1.702))


@contributed("BiasAdd")
def _bias_add(node: Node) -> Value:
    return node.call("add", node.call("add", node.given(0), node.given(1)), node.given(2))


@contributed("BiasSplitGelu")
def _bias_split_gelu(node: Node) -> Value:
    """The first half of x + bias times the GELU of the second."""
    halves = node.emit.ops("split", [node.call("add", node.given(0), node.given(1))], {"axis": -1, "parts": 2})
    return node.call("mul", halves[0], node.call("gelu", halves[1]))


@contributed("NhwcConv", attributes=WINDOW)
def _nhwc_conv(node: Node) -> Value:
    """Channels are the last dim of the image, of the weights [M, kH, kW, C/group] and of the result."""
    dims = spatial(node, 2)
    last_to_second = (0, 3, 1, 2)
    x, w = (node.call("transpose", node.given(position), perm=last_to_second) for position in (0, 1))
    found = node.call("conv2d", x, w, node.input(2), **windows(node, dims), **groups(node))
    return node.call("transpose", found, perm=(0, 2, 3, 1))
