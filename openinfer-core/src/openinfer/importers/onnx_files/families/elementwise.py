"""Operators that work element by element."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from openinfer.dtypes import F8, F32, F64, DType
from openinfer.importers.onnx_files.elements import element_name, element_type, scalar_of
from openinfer.importers.onnx_files.node import Node
from openinfer.importers.onnx_files.package import onnx_module
from openinfer.importers.onnx_files.registry import translates
from openinfer.importers.onnx_files.values import Value

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.source import Array
    from openinfer.importers.onnx_files.values import Setting

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
    "Greater": "gt",
    "GreaterOrEqual": "ge",
    "HardSwish": "hard_swish",
    "IsNaN": "is_nan",
    "Less": "lt",
    "LessOrEqual": "le",
    "Log": "log",
    "Mish": "mish",
    "Mul": "mul",
    "Neg": "neg",
    "Not": "not",
    "Or": "or",
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
"""Operators with the same inputs here, and no settings."""


@translates(*SAME)
def _same(node: Node) -> Value:
    return node.call(SAME[node.op], *node.inputs)


WITH_ALPHA = {
    "Elu": ("elu", {"alpha": 1.0}),
    "HardSigmoid": ("hard_sigmoid", {"alpha": 0.2, "beta": 0.5}),
    "LeakyRelu": ("relu", {"alpha": 0.01}),
}
"""Operators whose attributes are settings of the same name, with ONNX's defaults."""


@translates(*WITH_ALPHA)
def _with_alpha(node: Node) -> Value:
    op, defaults = WITH_ALPHA[node.op]
    return node.call(op, node.given(0), **{name: node.real(name, value) for name, value in defaults.items()})


def short_float(value: float) -> float:
    """Return an attribute, which is an f32, as the shortest double that rounds to it."""
    return float(str(np.float32(value)))


@translates("PRelu")
def _prelu(node: Node) -> Value:
    x, slope = node.given(0), node.given(1)
    if slope.rank == 1 and x.rank > 2 and slope.dims[0] == x.dims[1] != x.dims[-1]:
        # Before opset 7 a slope for each channel had one dim.
        slope = node.reshaped(slope, (slope.dims[0], *[1] * (x.rank - 2)))
    return node.call("prelu", x, slope)


@translates("Swish")
def _swish(node: Node) -> Value:
    beta = node.real("alpha", 1.0)
    return node.call("silu", node.given(0), **({} if beta == 1.0 else {"beta": beta}))


@translates("Gelu")
def _gelu(node: Node) -> Value:
    approximate = node.get("approximate", "none")
    return node.call("gelu", node.given(0), **({} if approximate == "none" else {"approximate": approximate}))


@translates("Celu")
def _celu(node: Node) -> Value:
    """max(0, x) + min(0, alpha * (e^(x / alpha) - 1)): where x > 0 it is x, whatever the sign of alpha."""
    x, number = node.given(0), float(node.get("alpha", 1.0))
    if number == 0:
        node.refuse("alpha=0, by which x is divided")
    if number == 1:
        return node.call("elu", x)
    alpha = node.number(number, x.dtype)
    quotient = node.call("div", x, alpha)
    if number > 0:
        power = node.call("elu", quotient)
    else:
        # The quotient is above 0 where x is below: elu would return it as it is, and e^q - 1 cancels near 0.
        falling = node.call("elu", node.call("neg", quotient))
        power = node.call("neg", node.call("mul", falling, node.call("exp", quotient)))
    return node.call("where", node.call("gt", x, node.number(0, x.dtype)), x, node.call("mul", power, alpha))


@translates("Selu")
def _selu(node: Node) -> Value:
    alpha, gamma = node.real("alpha", 1.6732632), node.real("gamma", 1.0507010)
    is_usual = math.isclose(alpha, 1.6732632, rel_tol=1e-6) and math.isclose(gamma, 1.0507010, rel_tol=1e-6)
    # The constants of the operator have more digits than those of ONNX, which only f64 shows.
    if is_usual and node.given(0).dtype is not F64:
        return node.call("selu", node.given(0))
    scaled = node.call("elu", node.given(0), alpha=alpha)
    return node.call("mul", scaled, node.number(gamma, scaled.dtype))


@translates("ThresholdedRelu")
def _thresholded_relu(node: Node) -> Value:
    x = node.given(0)
    bound, zero = node.number(node.get("alpha", 1.0), x.dtype), node.number(0, x.dtype)
    return node.call("where", node.call("gt", x, bound), x, zero)


@translates("Shrink")
def _shrink(node: Node) -> Value:
    """Integers go through f32: their bounds and what is added to them may have fractions."""
    dtype = node.given(0).dtype
    x = node.given(0) if dtype.is_float else cast(node, node.given(0), F32)
    lambd, bias = node.real("lambd", 0.5), node.real("bias")
    low = node.call("lt", x, node.number(-lambd, x.dtype))
    high = node.call("gt", x, node.number(lambd, x.dtype))
    below, above = (node.call(op, x, node.number(bias, x.dtype)) for op in ("add", "sub"))
    shrunk = node.call("where", low, below, node.call("where", high, above, node.number(0, x.dtype)))
    return cast(node, shrunk, dtype)


@translates("Softsign")
def _softsign(node: Node) -> Value:
    x = node.given(0)
    return node.call("div", x, node.call("add", node.call("abs", x), node.number(1, x.dtype)))


@translates("Round")
def _round(node: Node) -> Value:
    return node.call("round", node.given(0), mode="half_even")


@translates("Sign")
def _sign(node: Node) -> Value:
    x = node.given(0)
    found = cast(node, _sign_of(node, x), x.dtype)
    # The sign of NaN is NaN; the operator has 0 for it.
    return node.call("where", node.call("is_nan", x), x, found) if x.dtype.is_float else found


def _sign_of(node: Node, x: Value) -> Value:
    if x.dtype.name.startswith("u"):
        return node.call("ne", x, node.number(0, x.dtype))
    return node.call("sign", x)


@translates("Max", "Min", "Sum", "Mean")
def _variadic(node: Node) -> Value:
    op = {"Max": "max", "Min": "min"}.get(node.op, "add")
    found = node.given(0)
    settings: dict[str, Setting] = {"nan": "propagate"} if op != "add" and found.dtype.is_float else {}
    for position in range(1, len(node.inputs)):
        found = node.call(op, found, node.given(position), **settings)
    if node.op == "Mean" and len(node.inputs) > 1:
        return node.call("div", found, node.number(len(node.inputs), found.dtype))
    return node.call("identity", found) if len(node.inputs) == 1 else found


@translates("Mod")
def _mod(node: Node) -> Value:
    return node.call("rem" if node.flag("fmod") else "mod", *node.inputs)


@translates("Clip")
def _clip(node: Node) -> Value:
    settings: dict[str, Setting] = {}
    for position, name in ((1, "min"), (2, "max")):
        bound = node.input(position)
        if node.has(name):
            settings[name] = node.real(name)
        elif bound is not None:
            settings[name] = scalar_of(bound.array(), bound.dtype) if bound.payload is not None else bound
    x = node.given(0)
    if any(isinstance(value, Value) for value in settings.values()):
        return _clipped_at_run_time(node, x, settings)
    if settings.get("min") == 0 and x.dtype.is_float and isinstance(settings.get("max", 0.0), float):
        high = settings.get("max")
        return node.call("relu", x, **({} if high is None else {"clamp_max": high}))
    lowest, highest = -3.4028234663852886e38, 3.4028234663852886e38
    unbounded = {"min": lowest, "max": highest}
    kept = {name: value for name, value in settings.items() if not (node.has(name) and value == unbounded[name])}
    return node.call("clamp", x, **kept) if kept else node.call("identity", x)


def _clipped_at_run_time(node: Node, x: Value, bounds: dict[str, Setting]) -> Value:
    """Compare with bounds that the running program knows, the lower one first, as ONNX does."""
    settings: dict[str, Setting] = {"nan": "propagate"} if x.dtype.is_float else {}
    for name, op in (("min", "max"), ("max", "min")):
        bound = bounds.get(name)
        if isinstance(bound, Value):
            x = node.call(op, x, bound, **settings)
        elif isinstance(bound, int | float):
            x = node.call(op, x, node.number(bound, x.dtype), **settings)
    return x


@translates("IsInf")
def _is_inf(node: Node) -> Value:
    x = node.given(0)
    found = node.call("is_inf", x)
    negative, positive = (node.flag(f"detect_{sign}", True) for sign in ("negative", "positive"))
    if negative and positive:
        return found
    if not negative and not positive:
        return node.call("and", found, node.call("not", found))
    side = node.call("is_neg", x)
    return node.call("and", found, side if negative else node.call("not", side))


@translates("BitShift")
def _bit_shift(node: Node) -> Value:
    """One shift for all elements; a tensor of shifts becomes products or quotients of powers of two."""
    x, left, bits = node.given(0), node.get("direction") == "LEFT", node.known_array(1)
    if bits is None:
        node.refuse("the number of bits is left out")
    if np.unique(bits).size == 1 and _leaves_shape(x, bits):
        number = int(bits.reshape(-1)[0])
        # Taken as unsigned, a negative number of bits is one above the width, and any such shifts all bits out.
        return node.call("shl" if left else "shr", x, bits=number if 0 <= number < x.dtype.bits else x.dtype.bits)
    # The power of a signed type's highest bit is negative: no divisor, though a shift by as much leaves the sign alone.
    width = x.dtype.bits - (not left and bits.dtype.kind == "i")
    is_out = (bits >= width) | (bits < 0)
    powers = node.numbers(np.left_shift(np.uint64(1), np.where(is_out, 0, bits).astype(np.uint64)).astype(bits.dtype))
    shifted = node.call("mul", x, powers) if left else node.call("floor_div", x, powers, mode="floor")
    if not is_out.any():
        return shifted
    emptied = node.number(0, x.dtype) if left else node.call("shr", x, bits=x.dtype.bits)
    return node.call("where", node.numbers(is_out), emptied, shifted)


def _leaves_shape(x: Value, other: Array) -> bool:
    """Whether a value has the shape that it broadcasts to with an array."""
    if x.shape is None:
        return other.ndim <= x.rank and other.size == 1
    return np.broadcast_shapes(x.shape, other.shape) == x.shape


@translates("Cast", "CastLike")
def _cast(node: Node) -> Value:
    x = node.given(0)
    return cast(node, x, _cast_type(node), saturate=node.flag("saturate", True), explicit=True)


def _cast_type(node: Node) -> DType:
    if node.op == "CastLike":
        return node.given(1).dtype
    onnx = onnx_module()
    number = int(node.get("to"))
    found = element_type(onnx, number)
    if found is None:
        node.refuse(f"to={element_name(onnx, number)}, which OpenInfer does not have")
    node.require("round_mode", "up", "nearest")
    return found


def cast(node: Node, x: Value, to: DType, *, saturate: bool = True, explicit: bool = False) -> Value:
    """Return a value with another element type, converted as ONNX does: integers wrap, floats truncate."""
    if x.dtype is to:
        return node.call("identity", x) if explicit else x
    given = x
    if to is F8 and saturate:
        given = node.call("clamp", x, min=-57344.0, max=57344.0)
    settings: dict[str, Setting] = {"to": to}
    if to.is_integer and not _widens(x.dtype, to):
        settings["saturate"] = False
    return node.call("cast", given, **settings)


def _widens(source: DType, to: DType) -> bool:
    """Whether every value of an integer type is one of another, so that saturation makes no difference."""
    if not source.is_integer:
        return source.name == "bool"
    low, high = source.minimum or 0, source.maximum or 0
    return (to.minimum or 0) <= low and high <= (to.maximum or 0)


@translates("Identity")
def _identity(node: Node) -> Value:
    return node.given(0)


@translates("Dropout")
def _dropout(node: Node) -> tuple[Value, Value | None]:
    """Identity, as in inference; the optional mask keeps every element."""
    training = node.input(2)
    if training is not None and (training.payload is None or bool(training.array())):
        ratio = node.known_scalar(1)
        if ratio != 0 and (training.payload is None or ratio is None):
            node.refuse_training("training_mode=1")
        if ratio:
            node.refuse_training("training_mode=1")
    x = node.given(0)
    if len(node.source.outputs) < 2 or not node.source.outputs[1]:
        return x, None
    ones = node.call("fill", x, value=1.0)
    # Before opset 10 a mask had the type of the data.
    return x, node.call("eq", ones, node.number(1, x.dtype)) if node.opset >= 10 else ones
