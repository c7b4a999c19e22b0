"""Functions of single elements, and of pairs of them."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING

from openinfer.dims import Dim
from openinfer.dtypes import BOOL, F32
from openinfer.importers.onnx_files.values import Value
from openinfer.importers.torch_files.node import Node
from openinfer.importers.torch_files.registry import translates

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.values import Setting

OF_ONE = MappingProxyType(
    {
        "abs": "abs",
        "acosh": "acosh",
        "asinh": "asinh",
        "atanh": "atanh",
        "bitwise_not": "not",
        "ceil": "ceil",
        "cos": "cos",
        "cosh": "cosh",
        "erf": "erf",
        "exp": "exp",
        "floor": "floor",
        "hardswish": "hard_swish",
        "log": "log",
        "mish": "mish",
        "neg": "neg",
        "reciprocal": "recip",
        "rsqrt": "rsqrt",
        "sigmoid": "sigmoid",
        "silu": "silu",
        "sin": "sin",
        "sinh": "sinh",
        "sqrt": "sqrt",
        "square": "square",
        "tan": "tan",
        "tanh": "tanh",
        "trunc": "trunc",
    }
)
"""Operators with one input and no settings."""


@translates(*OF_ONE)
def _of_one(node: Node) -> Value:
    (x,) = node.in_result_type("self")
    if x.dtype.is_integer and node.op in ("ceil", "floor", "trunc"):
        return node.call("identity", x)
    return node.call(OF_ONE[node.op], x)


@translates("relu")
def _relu(node: Node) -> Value:
    x = node.tensor()
    return node.call("relu", x) if x.dtype.is_float else node.call("max", x, node.number(0, x.dtype))


@translates("round", "round.decimals")
def _round(node: Node) -> Value:
    x = node.tensor()
    if x.dtype.is_integer:
        return node.call("identity", x)
    decimals = node.get("decimals") or 0
    if not decimals:
        return node.call("round", x, mode="half_even")
    scale = node.number(10.0 ** abs(decimals), x.dtype)
    before, after = ("mul", "div") if decimals > 0 else ("div", "mul")
    return node.call(after, node.call("round", node.call(before, x, scale), mode="half_even"), scale)


@translates("exp2")
def _exp2(node: Node) -> Value:
    (x,) = node.in_result_type("self")
    return node.call("pow", node.number(2.0, x.dtype), x)


@translates("expm1")
def _expm1(node: Node) -> Value:
    """e^x - 1 without cancellation: 2 e^(x/2) sinh(x/2) above 0, and what elu computes below."""
    (x,) = node.in_result_type("self")
    half = node.call("mul", x, node.number(0.5, x.dtype))
    product = node.call("mul", node.call("exp", half), node.call("sinh", half))
    positive = node.call("mul", product, node.number(2.0, x.dtype))
    return node.call("where", node.call("gt", x, node.number(0.0, x.dtype)), positive, node.call("elu", x))


@translates("log1p")
def _log1p(node: Node) -> Value:
    """log(1 + x) without cancellation: 2 atanh(x / (2 + x)) near 0."""
    (x,) = node.in_result_type("self")
    ratio = node.call("div", x, node.call("add", x, node.number(2.0, x.dtype)))
    near = node.call("mul", node.call("atanh", ratio), node.number(2.0, x.dtype))
    far = node.call("log", node.call("add", x, node.number(1.0, x.dtype)))
    is_near = node.call("lt", node.call("abs", x), node.number(0.5, x.dtype))
    return node.call("where", is_near, near, far)


@translates("log10", "log2")
def _log(node: Node) -> Value:
    (x,) = node.in_result_type("self")
    base = 10.0 if node.op == "log10" else 2.0
    return node.call("mul", node.call("log", x), node.number(1 / math.log(base), x.dtype))


@translates("erfc")
def _erfc(node: Node) -> Value:
    (x,) = node.in_result_type("self")
    return node.call("sub", node.number(1.0, x.dtype), node.call("erf", x))


@translates("sign", "sgn")
def _sign(node: Node) -> Value:
    x = node.tensor()
    if x.dtype is BOOL:
        return node.call("identity", x)
    return node.converted(node.call("sign", x), x.dtype)


@translates("frac")
def _frac(node: Node) -> Value:
    x = node.tensor()
    return node.call("sub", x, node.call("trunc", x))


@translates("isnan", "isinf", "isfinite")
def _is(node: Node) -> Value:
    x = node.tensor()
    if not x.dtype.is_float:
        # An integer equals itself, and is finite.
        return node.call("eq" if node.op == "isfinite" else "ne", x, x)
    return node.call({"isnan": "is_nan", "isinf": "is_inf", "isfinite": "is_finite_each"}[node.op], x)


@translates("logical_not")
def _logical_not(node: Node) -> Value:
    x = node.tensor()
    return node.call("not", x) if x.dtype is BOOL else node.call("eq", x, node.number(0, x.dtype))


# Pairs


def _scaled(node: Node, value: Value) -> Value:
    """Return a value times ``alpha``."""
    alpha = node.get("alpha")
    if alpha is None or alpha == 1:
        return value
    return node.call("mul", value, node.of_type(node.operand("alpha"), value.dtype))


@translates("add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar")
def _add(node: Node) -> Value:
    left, right = node.in_result_type("self", "other")
    return node.call(node.op, left, _scaled(node, right))


@translates("rsub.Tensor", "rsub.Scalar")
def _rsub(node: Node) -> Value:
    left, right = node.in_result_type("self", "other")
    return node.call("sub", right, _scaled(node, left))


@translates("mul.Tensor", "mul.Scalar")
def _mul(node: Node) -> Value:
    return node.call("mul", *node.in_result_type("self", "other"))


@translates("div.Tensor", "div.Scalar", "true_divide.Tensor")
def _div(node: Node) -> Value:
    return node.call("div", *node.in_result_type("self", "other"))


@translates("div.Tensor_mode", "div.Scalar_mode", "floor_divide", "floor_divide.Scalar")
def _div_mode(node: Node) -> Value:
    left, right = node.in_result_type("self", "other")
    mode = "floor" if node.op == "floor_divide" else node.get("rounding_mode")
    if mode is None:
        return node.call("div", left, right)
    if not left.dtype.is_integer:
        return node.call("floor" if mode == "floor" else "trunc", node.call("div", left, right))
    return node.call("floor_div", left, right, mode="floor") if mode == "floor" else node.call("div", left, right)


@translates("remainder.Tensor", "remainder.Scalar", "remainder.Scalar_Tensor", "fmod.Tensor", "fmod.Scalar")
def _remainder(node: Node) -> Value:
    return node.call("mod" if node.op == "remainder" else "rem", *node.in_result_type("self", "other"))


@translates("pow.Tensor_Tensor", "pow.Tensor_Scalar", "pow.Scalar")
def _pow(node: Node) -> Value:
    base, exponent = node.in_result_type("self", "exponent")
    number = node.get("exponent")
    if not isinstance(number, Value) and number == 2:
        return node.call("square", base)
    if not isinstance(number, Value) and number == 0.5:
        return node.call("sqrt", base)
    return node.call("pow", base, exponent)


@translates("maximum", "minimum", "fmax", "fmin", "max.other", "min.other")
def _extreme(node: Node) -> Value:
    left, right = node.in_result_type("self", "other")
    op = "max" if "max" in node.op else "min"
    if left.dtype is BOOL:
        return node.call("or" if op == "max" else "and", left, right)
    ignores = node.op.startswith("f")
    return node.call(op, left, right, **({"nan": "propagate"} if left.dtype.is_float and not ignores else {}))


_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


@translates(*(f"{name}.{other}" for name in _COMPARISONS for other in ("Tensor", "Scalar")))
def _compare(node: Node) -> Value:
    left, right = node.promoted("self", "other")
    if left.dtype is BOOL and node.op not in ("eq", "ne"):
        left, right = (node.converted(value, F32) for value in (left, right))
    return node.call(node.op, left, right)


def truth(node: Node, value: Value) -> Value:
    """Return whether elements are not 0."""
    return value if value.dtype is BOOL else node.call("ne", value, node.number(0, value.dtype))


@translates("logical_and", "logical_or", "logical_xor")
def _logical(node: Node) -> Value:
    return node.call(node.op.removeprefix("logical_"), *(truth(node, node.tensor(name)) for name in ("self", "other")))


@translates(*(f"bitwise_{name}.{other}" for name in ("and", "or", "xor") for other in ("Tensor", "Scalar")))
def _bitwise(node: Node) -> Value:
    return node.call(node.op.removeprefix("bitwise_"), *node.in_result_type("self", "other"))


@translates("bitwise_left_shift.Tensor_Scalar", "bitwise_right_shift.Tensor_Scalar")
def _shift(node: Node) -> Value:
    return node.call("shl" if "left" in node.op else "shr", node.tensor(), bits=node.integer("other"))


# Choices and conversions


@translates("where.self", "where.ScalarSelf", "where.ScalarOther", "where.Scalar")
def _where(node: Node) -> Value:
    left, right = node.in_result_type("self", "other")
    return node.call("where", truth(node, node.tensor("condition")), left, right)


@translates("masked_fill.Scalar", "masked_fill.Tensor")
def _masked_fill(node: Node) -> Value:
    (x, value) = node.in_result_type("self", "value")
    return node.call("where", node.tensor("mask"), value, x)


@translates("lerp.Scalar", "lerp.Tensor")
def _lerp(node: Node) -> Value:
    start, end, weight = node.in_result_type("self", "end", "weight")
    return node.call("add", start, node.call("mul", weight, node.call("sub", end, start)))


@translates("addcmul", "addcdiv")
def _addc(node: Node) -> Value:
    x, first, second = node.in_result_type("self", "tensor1", "tensor2")
    made = node.call("mul" if node.op == "addcmul" else "div", first, second)
    factor = node.real("value")
    return node.call("add", x, made if factor == 1 else node.call("mul", made, node.number(factor, x.dtype)))


@translates("to.dtype", "to.dtype_layout", "to.device", "to.other", "type_as", "_to_copy")
def _to(node: Node) -> Value:
    x = node.tensor()
    return node.converted(x, node.dtype) if x.dtype is not node.dtype else node.call("identity", x)


@translates("clamp", "clamp.Tensor", "clamp_min", "clamp_min.Tensor", "clamp_max", "clamp_max.Tensor", "hardtanh")
def _clamp(node: Node) -> Value:
    (x,) = node.in_result_type("self")
    low = node.get("min_val" if node.op == "hardtanh" else "min")
    high = node.get("max_val" if node.op == "hardtanh" else "max")
    if any(isinstance(bound, Value | Dim) for bound in (low, high)):
        return _clamped(node, x, low, high)
    settings: dict[str, Setting] = {}
    for name, bound in (("min", low), ("max", high)):
        if bound is not None:
            settings[name] = float(bound) if x.dtype.is_float else int(bound)
    if settings.get("min") == 0.0 and x.dtype.is_float:
        return node.call("relu", x, **({"clamp_max": settings["max"]} if "max" in settings else {}))
    return node.call("clamp", x, **settings)


def _clamped(node: Node, x: Value, low: Value | float | None, high: Value | float | None) -> Value:
    settings: dict[str, Setting] = {"nan": "propagate"} if x.dtype.is_float else {}
    for bound, op in ((low, "max"), (high, "min")):
        if bound is not None:
            x = node.call(op, x, node.of_type(bound, x.dtype), **settings)
    return x


@translates("relu6")
def _relu6(node: Node) -> Value:
    return node.call("relu", node.tensor(), clamp_max=6.0)


@translates("logit")
def _logit(node: Node) -> Value:
    (x,) = node.in_result_type("self")
    eps = node.get("eps")
    if eps is not None:
        x = node.call("clamp", x, min=float(eps), max=1.0 - float(eps))
    return node.call("log", node.call("div", x, node.call("sub", node.number(1.0, x.dtype), x)))
