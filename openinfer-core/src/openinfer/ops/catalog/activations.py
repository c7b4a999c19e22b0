"""Activations, and limits on elements."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from openinfer.dims import surely
from openinfer.dtypes import I64, DType
from openinfer.expr import tree
from openinfer.expr.sizes import number
from openinfer.ops.dtype_sets import FLOATS, NUMBERS, SIGNED
from openinfer.ops.elementwise import elementwise, example, of_elements
from openinfer.ops.scalar_settings import bound_setting, bounds_fit, scalar_setting, scalars_fit
from openinfer.ops.schema import SettingSpec, SettingType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.expr.tree import Expr
    from openinfer.ir.resolved import SettingValue

    Settings = Mapping[str, SettingValue]

CATEGORY = "activation"


def _number(name: str, default: float | None, doc: str, aliases: tuple[str, ...] = ()) -> SettingSpec:
    return SettingSpec(name=name, type=SettingType.SCALAR, default=default, doc=doc, aliases=aliases)


def _constant(x: Expr, value: float) -> Expr:
    return number(value, x.dtype)


def _at_least(x: Expr, bound: Expr) -> Expr:
    """Return x where it is not below the bound; NaN stays NaN."""
    return tree.select(tree.lt(x, bound), bound, x)


def _at_most(x: Expr, bound: Expr) -> Expr:
    """Return x where it is not above the bound; NaN stays NaN."""
    return tree.select(tree.gt(x, bound), bound, x)


def _check_relu(dtype: DType, settings: Settings) -> None:
    scalar_setting(settings, "alpha", dtype if dtype.is_float else I64)
    bounds_fit("clamp_min", "clamp_max")(dtype, settings)


def _relu(inputs: Sequence[Expr], settings: Settings, out: DType) -> Expr:
    x = inputs[0]
    result = _sloped(x, scalar_setting(settings, "alpha", out if out.is_float else I64))
    low, high = (bound_setting(settings, name, out) for name in ("clamp_min", "clamp_max"))
    if low is not None and low != -math.inf:
        result = _at_least(result, tree.cast(_constant(x, low), result.dtype))
    if high is not None and high != math.inf:
        result = _at_most(result, tree.cast(_constant(x, high), result.dtype))
    return result


def _sloped(x: Expr, alpha: float) -> Expr:
    """Return x where it is not negative, else alpha times x: +0 for alpha 0, in 64 bits for integers."""
    zero = _constant(x, 0)
    flat = tree.select(tree.lt(x, zero), zero, x)
    if surely(lambda: alpha == 0):
        return flat
    if x.dtype.is_float:
        slope = _constant(x, alpha)
        sloped = tree.select(tree.ge(x, zero), x, tree.mul(x, slope))
        return sloped if surely(lambda: alpha != 0) else tree.select(tree.eq(slope, zero), flat, sloped)
    wide = tree.cast(x, I64)
    return tree.select(tree.lt(x, zero), tree.mul(wide, number(alpha, I64)), wide)


def _clamp(inputs: Sequence[Expr], settings: Settings, out: DType) -> Expr:
    x = inputs[0]
    low, high = (bound_setting(settings, name, out) for name in ("min", "max"))
    if x.dtype.is_float and settings.get("nan") == "bound":
        return _clamp_to_number(x, low, high)
    if low is not None:
        x = _at_least(x, _constant(x, low))
    return x if high is None else _at_most(x, _constant(x, high))


def _clamp_to_number(x: Expr, low: float | None, high: float | None) -> Expr:
    """Return the clamped number with NaN at the lower bound; in f64 the default bounds are finite."""
    limit = math.nextafter(math.inf, 0.0) if x.dtype.bits == 64 else math.inf
    above = tree.maximum(x, _constant(x, -limit if low is None else low))
    return tree.minimum(above, _constant(x, limit if high is None else high))


def _sigmoid(x: Expr) -> Expr:
    """Return 1 / (1 + e^-x); the power is of a number that is never positive, so it cannot overflow."""
    one = _constant(x, 1)
    small = tree.exp(tree.neg(tree.absolute(x)))
    return tree.div(tree.select(tree.lt(x, _constant(x, 0)), small, one), tree.add(one, small))


def _softplus(x: Expr) -> Expr:
    positive = _at_least(x, _constant(x, 0))
    return tree.add(positive, tree.log1p(tree.exp(tree.neg(tree.absolute(x)))))


def _mish(x: Expr) -> Expr:
    return tree.mul(x, tree.tanh(_softplus(x)))


def _silu(inputs: Sequence[Expr], settings: Settings, out: DType) -> Expr:
    x = inputs[0]
    beta = scalar_setting(settings, "beta", out)
    return tree.mul(x, _sigmoid(x if surely(lambda: beta == 1) else tree.mul(x, _constant(x, beta))))


def _gelu(inputs: Sequence[Expr], settings: Settings, out: DType) -> Expr:
    del out
    x = inputs[0]
    half, slope = _constant(x, 0.5), math.sqrt(2 / math.pi)
    if settings.get("approximate") == "tanh":
        square = tree.mul(_constant(x, 0.044715 * slope), tree.mul(x, x))
        inner = tree.tanh(tree.mul(x, tree.add(_constant(x, slope), square)))
    else:
        inner = tree.erf(tree.mul(x, _constant(x, math.sqrt(0.5))))
    return tree.mul(x, tree.add(half, tree.mul(half, inner)))


def _elu(inputs: Sequence[Expr], settings: Settings, out: DType) -> Expr:
    x = inputs[0]
    alpha = scalar_setting(settings, "alpha", out)
    return tree.select(tree.ge(x, _constant(x, 0)), x, tree.mul(_constant(x, alpha), tree.expm1(x)))


def _selu(x: Expr) -> Expr:
    negative = tree.mul(_constant(x, 1.67326319), tree.expm1(x))
    return tree.mul(_constant(x, 1.05070102), tree.select(tree.gt(x, _constant(x, 0)), x, negative))


def _unit(x: Expr) -> Expr:
    """Return x clamped to [0, 1]."""
    return _at_most(_at_least(x, _constant(x, 0)), _constant(x, 1))


def _hard_sigmoid(inputs: Sequence[Expr], settings: Settings, out: DType) -> Expr:
    x = inputs[0]
    alpha, beta = (scalar_setting(settings, name, out) for name in ("alpha", "beta"))
    return _unit(tree.add(tree.mul(_constant(x, alpha), x), _constant(x, beta)))


def _hard_swish(x: Expr) -> Expr:
    return tree.mul(x, _unit(tree.add(tree.div(x, _constant(x, 6)), _constant(x, 0.5))))


def _prelu(inputs: Sequence[Expr], settings: Settings, out: DType) -> Expr:
    del settings, out
    x, slope = inputs
    return tree.select(tree.lt(x, _constant(x, 0)), tree.mul(x, slope), x)


RELU = elementwise(
    "relu",
    "x",
    FLOATS | SIGNED | {"i4"},
    _relu,
    summary="x where x >= 0, else alpha * x; then at least clamp_min, then at most clamp_max; NaN stays NaN",
    category=CATEGORY,
    examples=(
        example(FLOATS, alpha=0.1),
        example(FLOATS, alpha=0.5, clamp_min=-1.0, clamp_max=6.0),
        example(SIGNED | {"i4"}, alpha=2, clamp_min=-3, clamp_max=6),
    ),
    settings=(
        _number("alpha", 0, "slope for negatives", ("negative_slope",)),
        _number("clamp_min", None, "lower bound of the result; default none"),
        _number("clamp_max", None, "upper bound of the result; default none"),
    ),
    check=_check_relu,
    onnx="LeakyRelu, Clip",
)
CLAMP = elementwise(
    "clamp",
    "x",
    NUMBERS,
    _clamp,
    summary="min(max(x, min), max); x where it equals a bound, so -0 stays -0; NaN stays NaN",
    category=CATEGORY,
    examples=(
        example(FLOATS, min=-0.5, max=2.0),
        example(FLOATS, min=1.0, max=-1.0, nan="bound"),
        example(NUMBERS - FLOATS, min=0, max=1),
        example(SIGNED, max=-2),
    ),
    settings=(
        _number("min", None, "lower bound; default none", ("clamp_min",)),
        _number("max", None, "upper bound; default none", ("clamp_max",)),
        SettingSpec(
            name="nan",
            type=SettingType.STR,
            default="propagate",
            choices=("propagate", "bound"),
            doc="whether NaN stays or becomes the lower bound",
        ),
    ),
    check=bounds_fit("min", "max"),
    aliases=("clip",),
    onnx="Clip",
)
PRELU = elementwise(
    "prelu",
    "x slope",
    FLOATS,
    _prelu,
    summary="x * slope where x < 0, else x",
    category=CATEGORY,
    onnx="PRelu",
)
SIGMOID = elementwise(
    "sigmoid",
    "x",
    FLOATS,
    of_elements(_sigmoid),
    summary="1 / (1 + e^-x), without overflow",
    category=CATEGORY,
    onnx="Sigmoid",
)
SILU = elementwise(
    "silu",
    "x",
    FLOATS,
    _silu,
    summary="x * sigmoid(beta * x)",
    category=CATEGORY,
    examples=(example(FLOATS, beta=1.7),),
    settings=(_number("beta", 1.0, "factor in the sigmoid"),),
    check=scalars_fit("beta"),
    aliases=("swish",),
    onnx="Swish",
)
GELU = elementwise(
    "gelu",
    "x",
    FLOATS,
    _gelu,
    summary="x/2 * (1 + erf(x / sqrt 2)), or its tanh approximation",
    category=CATEGORY,
    settings=(
        SettingSpec(
            name="approximate",
            type=SettingType.STR,
            default="none",
            choices=("none", "tanh"),
            doc="which formula",
        ),
    ),
    onnx="Gelu",
)
SOFTPLUS = elementwise(
    "softplus",
    "x",
    FLOATS,
    of_elements(_softplus),
    summary="max(x, 0) + log1p(e^-|x|)",
    category=CATEGORY,
    onnx="Softplus",
)
ELU = elementwise(
    "elu",
    "x",
    FLOATS,
    _elu,
    summary="x where x >= 0, else alpha * (e^x - 1)",
    category=CATEGORY,
    examples=(example(FLOATS, alpha=0.3),),
    settings=(_number("alpha", 1.0, "factor for negatives"),),
    check=scalars_fit("alpha"),
    onnx="Elu",
)
SELU = elementwise(
    "selu",
    "x",
    FLOATS,
    of_elements(_selu),
    summary="1.05070102 * (x where x > 0, else 1.67326319 * (e^x - 1))",
    category=CATEGORY,
    onnx="Selu",
)
HARD_SIGMOID = elementwise(
    "hard_sigmoid",
    "x",
    FLOATS,
    _hard_sigmoid,
    summary="alpha * x + beta, clamped to [0, 1]",
    category=CATEGORY,
    examples=(example(FLOATS, alpha=0.25, beta=0.4),),
    settings=(_number("alpha", 0.2, "slope"), _number("beta", 0.5, "value at 0")),
    check=scalars_fit("alpha", "beta"),
    onnx="HardSigmoid",
)
HARD_SWISH = elementwise(
    "hard_swish",
    "x",
    FLOATS,
    of_elements(_hard_swish),
    summary="x * clamp(x/6 + 1/2, 0, 1)",
    category=CATEGORY,
    onnx="HardSwish",
)
MISH = elementwise(
    "mish",
    "x",
    FLOATS,
    of_elements(_mish),
    summary="x * tanh(softplus(x))",
    category=CATEGORY,
    onnx="Mish",
)
