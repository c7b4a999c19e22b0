"""Mathematical functions of elements, and rounding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import BOOL, BY_NAME, I8, DType
from openinfer.expr import tree
from openinfer.expr.sizes import number
from openinfer.ops.dtype_sets import FLOATS, INTEGERS, PACKED_SIGNED, SIGNED
from openinfer.ops.elementwise import elementwise, example, of_elements
from openinfer.ops.rounding import rounded
from openinfer.ops.scalar_settings import scalar_setting, scalars_fit
from openinfer.ops.schema import Operand, OpExample, Refusal, SettingSpec, SettingType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.expr.tree import Expr
    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.schema import OpSchema

    Settings = Mapping[str, SettingValue]

CATEGORY = "function"


def _function(name: str, function: Callable[[Expr], Expr], summary: str, onnx: str) -> OpSchema:
    return elementwise(name, "x", FLOATS, of_elements(function), summary=summary, category=CATEGORY, onnx=onnx)


def _rsqrt(x: Expr) -> Expr:
    return tree.div(tree.literal(1, x.dtype), tree.sqrt(x))


def _sign(x: Expr) -> Expr:
    zero = tree.literal(0, x.dtype)
    below = tree.select(tree.lt(x, zero), tree.literal(-1, I8), tree.literal(0, I8))
    return tree.select(tree.gt(x, zero), tree.literal(1, I8), below)


def _power(a: Expr, b: Expr) -> Expr:
    """Return a to the power b; signed integers are raised as unsigned ones, equal modulo 2^width."""
    if a.dtype.is_float:
        return tree.power(a, b)
    unsigned = BY_NAME[f"u{a.dtype.bits}"]
    return tree.cast(tree.power(tree.cast(a, unsigned), tree.cast(b, unsigned)), a.dtype)


def _negative_exponent(inputs: Sequence[Expr], settings: Settings) -> Expr | None:
    """Return whether the exponent of an integer is negative."""
    del settings
    exponent = inputs[1]
    is_signed = exponent.dtype.is_integer and exponent.dtype.minimum != 0
    return tree.lt(exponent, tree.literal(0, exponent.dtype)) if is_signed else None


def _is_finite(x: Expr) -> Expr:
    return tree.logical_not(tree.logical_or(tree.is_nan(x), tree.is_inf(x)))


def _repaired(inputs: Sequence[Expr], settings: Settings, out: DType) -> Expr:
    x = inputs[0]
    value = number(scalar_setting(settings, "value", out), x.dtype)
    return tree.select(_is_finite(x), x, value)


def _round(inputs: Sequence[Expr], settings: Settings, out: DType) -> Expr:
    del out
    return rounded(inputs[0], str(settings.get("mode")))


EXP = _function("exp", tree.exp, "e^x", "Exp")
LOG = _function("log", tree.log, "natural logarithm; log 0 is -inf, of negatives NaN", "Log")
SQRT = _function("sqrt", tree.sqrt, "square root; of negatives NaN", "Sqrt")
RSQRT = _function("rsqrt", _rsqrt, "1 / sqrt(x); +inf for 0", "Sqrt, Reciprocal")
SIN = _function("sin", tree.sin, "sine of radians", "Sin")
COS = _function("cos", tree.cos, "cosine of radians", "Cos")
TAN = _function("tan", tree.tan, "tangent of radians", "Tan")
TANH = _function("tanh", tree.tanh, "hyperbolic tangent", "Tanh")
ERF = _function("erf", tree.erf, "error function", "Erf")
FLOOR = _function("floor", tree.floor, "greatest integer not above x", "Floor")
CEIL = _function("ceil", tree.ceil, "least integer not below x", "Ceil")
TRUNC = _function("trunc", tree.trunc, "x without its fraction", "Sign, Abs, Floor, Mul")

ROUND = elementwise(
    "round",
    "x",
    FLOATS,
    _round,
    summary="nearest integer; the mode says what happens to halves",
    category=CATEGORY,
    settings=(
        SettingSpec(
            name="mode",
            type=SettingType.STR,
            default="half_away",
            choices=("half_away", "half_even", "down", "up"),
            doc="halves away from zero or to even; or floor, or ceil",
        ),
    ),
    onnx="Round",
)
SIGN = elementwise(
    "sign",
    "x",
    FLOATS | SIGNED | PACKED_SIGNED,
    of_elements(_sign),
    summary="-1, 0 or 1; 0 for NaN",
    category=CATEGORY,
    result=I8,
    onnx="Sign",
)
POW = elementwise(
    "pow",
    "a b",
    FLOATS | INTEGERS,
    of_elements(_power),
    summary="a to the power b, IEEE; integers wrap, a negative exponent is an error",
    category=CATEGORY,
    onnx="Pow",
    examples=(
        OpExample(inputs=(Operand(shape=(3, 5)), Operand(shape=(5,))), dtypes=FLOATS),
        OpExample(inputs=(Operand(shape=(3, 5)), Operand(shape=(5,), low=0, high=127)), dtypes=INTEGERS),
    ),
    refusal=Refusal(_negative_exponent, "integers take exponents from 0 on"),
)
FILL_NAN_LIKE = elementwise(
    "fill_nan_like",
    "x",
    FLOATS,
    _repaired,
    summary="x where it is finite, else the value",
    category=CATEGORY,
    examples=(example(FLOATS, value=-1.5),),
    settings=(SettingSpec(name="value", type=SettingType.SCALAR, default=0.0, doc="replaces NaN and infinities"),),
    check=scalars_fit("value"),
    onnx="IsNaN, IsInf, Or, Where",
)
IS_NAN = elementwise(
    "is_nan",
    "x",
    FLOATS,
    of_elements(tree.is_nan),
    summary="whether x is NaN",
    category=CATEGORY,
    result=BOOL,
    onnx="IsNaN",
)
IS_INF = elementwise(
    "is_inf",
    "x",
    FLOATS,
    of_elements(tree.is_inf),
    summary="whether x is an infinity",
    category=CATEGORY,
    result=BOOL,
    onnx="IsInf",
)
IS_FINITE_EACH = elementwise(
    "is_finite_each",
    "x",
    FLOATS,
    of_elements(_is_finite),
    summary="whether each element is neither NaN nor an infinity",
    category=CATEGORY,
    result=BOOL,
    onnx="IsNaN, IsInf, Or, Not",
)
