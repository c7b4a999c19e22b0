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


def number_of(value: Array) -> Any:
    return np.asarray(value).reshape(-1)[0].item()


def declared_of(node: Node) -> list[Array]:
    return [output for output in node.outputs if output is not None]


# Elementwise

SAME = {
    "Abs": "abs",
    "Acosh": "acosh",
    "Add": "add",
    "And": "and",
    "Asinh": "asinh",
    "Atanh": "atanh",
    "BitwiseAnd": "and",
    "BitwiseNot": "not",
    "BitwiseOr": "or",
    "BitwiseXor": "xor",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Div": "div",
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
    "Reciprocal": "recip",
    "Relu": "relu",
    "Sigmoid": "sigmoid",
    "Sin": "sin",
    "Sinh": "sinh",
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
    return Call("clamp", node.inputs[:1], {n: number_of(b) for n, b in bounds.items() if b is not None})


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
