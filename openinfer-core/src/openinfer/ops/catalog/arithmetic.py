"""Arithmetic on elements."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from openinfer.dims import surely
from openinfer.dtypes import BOOL, DType, Kind
from openinfer.expr import tree
from openinfer.expr.sizes import number
from openinfer.ops.accumulate import ACC
from openinfer.ops.dtype_sets import (
    BITSETS,
    BOOLS,
    FLOATS,
    INTEGERS,
    NUMBERS,
    PACKED_SIGNED,
    SIGNED,
)
from openinfer.ops.elementwise import elementwise, example, of_elements
from openinfer.ops.scalar_settings import scalar_setting
from openinfer.ops.schema import SettingSpec, SettingType

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.expr.tree import Expr
    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.schema import BuildScalar
    from openinfer.scalars import Scalar

    Settings = Mapping[str, SettingValue]

CATEGORY = "arithmetic"
_DIVIDED = INTEGERS | {"i4", "u4"}
_MASK = SettingSpec(
    name="div_by_zero_mask",
    type=SettingType.SCALAR,
    default=None,
    doc='result where the divisor is 0; default "ieee" for floats (1 / 0 = inf), 0 for integers; nan is 0 for integers',
)


def _or_logical(arithmetic: Callable[[Expr, Expr], Expr], logical: Callable[[Expr, Expr], Expr]) -> BuildScalar:
    """Return the builder of a function of two numbers, with another one for bool."""

    def build(inputs: Sequence[Expr], settings: Settings, out: DType) -> Expr:
        del settings, out
        a, b = inputs
        return logical(a, b) if a.dtype is BOOL else arithmetic(a, b)

    return build


def _mask(dtype: DType, settings: Settings) -> Scalar | None:
    """Return the result for a divisor of 0; None for IEEE division.

    NaN is 0 as an integer, as in conversions.

    Raises:
        OpTypeError: the type cannot hold the mask.
    """
    value = settings.get("div_by_zero_mask")
    if dtype.is_float and value in (None, "ieee"):
        return None
    if value is None or (not dtype.is_float and isinstance(value, float) and math.isnan(value)):
        return 0
    return scalar_setting(settings, "div_by_zero_mask", dtype)


def _masked(quotient: Expr, divisor: Expr, settings: Settings, out: DType) -> Expr:
    mask = _mask(out, settings)
    if mask is None or (not out.is_float and surely(lambda: mask == 0)):
        return quotient  # what expressions yield by themselves
    zero = tree.eq(divisor, tree.literal(0, divisor.dtype))
    return tree.select(zero, number(mask, quotient.dtype), quotient)


def _masked_function(function: Callable[[Expr, Expr], Expr]) -> BuildScalar:
    return lambda inputs, settings, out: _masked(function(*inputs), inputs[1], settings, out)


def _recip(inputs: Sequence[Expr], settings: Settings, out: DType) -> Expr:
    x = inputs[0]
    return _masked(tree.div(tree.literal(1, x.dtype), x), x, settings, out)


def _floor_div(inputs: Sequence[Expr], settings: Settings, out: DType) -> Expr:
    a, b = inputs
    quotient, remainder, zero = tree.div(a, b), tree.rem(a, b), tree.literal(0, a.dtype)
    if a.dtype.kind is Kind.SIGNED:
        one = tree.literal(1, a.dtype)
        negative = tree.lt(b, zero)
        if settings.get("mode") == "floor":
            apart = tree.logical_and(tree.ne(remainder, zero), tree.ne(tree.lt(remainder, zero), negative))
            quotient = tree.select(apart, tree.sub(quotient, one), quotient)
        else:
            step = tree.select(negative, one, tree.literal(-1, a.dtype))
            # Where the divisor is 0 the remainder is 0 too, so the step is not taken.
            quotient = tree.select(tree.lt(remainder, zero), tree.add(quotient, step), quotient)
    return _masked(quotient, b, settings, out)


def _mod(a: Expr, b: Expr) -> Expr:
    remainder, zero = tree.rem(a, b), tree.literal(0, a.dtype)
    apart = tree.logical_and(tree.ne(remainder, zero), tree.ne(tree.lt(remainder, zero), tree.lt(b, zero)))
    return tree.select(apart, tree.add(remainder, b), remainder)


def _fma(a: Expr, b: Expr, c: Expr) -> Expr:
    return tree.add(tree.mul(a, b), c)


def _square(x: Expr) -> Expr:
    return tree.mul(x, x)


def _extremum(function: Callable[[Expr, Expr], Expr]) -> BuildScalar:
    def build(inputs: Sequence[Expr], settings: Settings, out: DType) -> Expr:
        del out
        a, b = inputs
        found = function(a, b)
        if settings.get("nan") == "ignore" or not a.dtype.is_float:
            return found
        return tree.select(tree.is_nan(a), a, tree.select(tree.is_nan(b), b, found))

    return build


_NAN = SettingSpec(
    name="nan",
    type=SettingType.STR,
    default="ignore",
    choices=("ignore", "propagate"),
    doc="whether a NaN operand is passed over or is the result",
)

ADD = elementwise(
    "add",
    "a b",
    NUMBERS | BOOLS | BITSETS,
    _or_logical(tree.add, tree.logical_or),
    summary="a + b; integers wrap, bool is OR",
    category=CATEGORY,
    settings=(ACC,),
    onnx="Add",
)
SUB = elementwise(
    "sub",
    "a b",
    NUMBERS,
    of_elements(tree.sub),
    summary="a - b; integers wrap",
    category=CATEGORY,
    settings=(ACC,),
    onnx="Sub",
)
MUL = elementwise(
    "mul",
    "a b",
    NUMBERS | BOOLS | BITSETS,
    _or_logical(tree.mul, tree.logical_and),
    summary="a * b; integers wrap, bool is AND",
    category=CATEGORY,
    settings=(ACC,),
    onnx="Mul",
)
DIV = elementwise(
    "div",
    "a b",
    FLOATS | _DIVIDED,
    _masked_function(tree.div),
    summary="a / b; integers truncate toward zero; where b is 0: IEEE's result for floats, 0 for integers",
    category=CATEGORY,
    examples=(
        example(FLOATS, inputs=2, div_by_zero_mask="ieee"),
        example(FLOATS | _DIVIDED, inputs=2, div_by_zero_mask=math.nan),
        example(FLOATS | _DIVIDED, inputs=2, div_by_zero_mask=1),
    ),
    settings=(_MASK,),
    check=_mask,
    onnx="Div",
)
FLOOR_DIV = elementwise(
    "floor_div",
    "a b",
    _DIVIDED,
    _floor_div,
    summary="integer quotient: Euclidean (remainder never negative) or rounded down; where b is 0: 0",
    category=CATEGORY,
    examples=(example(_DIVIDED, inputs=2, div_by_zero_mask=7),),
    settings=(
        _MASK,
        SettingSpec(
            name="mode",
            type=SettingType.STR,
            default="euclid",
            choices=("euclid", "floor"),
            doc="which quotient",
        ),
    ),
    check=_mask,
)
REM = elementwise(
    "rem",
    "a b",
    FLOATS | _DIVIDED,
    _masked_function(tree.rem),
    summary="remainder with the sign of a (C's % and fmod); where b is 0: NaN for floats, 0 for integers",
    category=CATEGORY,
    examples=(example(FLOATS | _DIVIDED, inputs=2, div_by_zero_mask=1),),
    settings=(_MASK,),
    check=_mask,
    aliases=("fmod",),
    onnx="Mod",
)
MOD = elementwise(
    "mod",
    "a b",
    FLOATS | INTEGERS,
    of_elements(_mod),
    summary="remainder with the sign of b; where b is 0: NaN for floats, 0 for integers",
    category=CATEGORY,
    onnx="Mod",
)
FMA = elementwise(
    "fma",
    "a b c",
    FLOATS,
    of_elements(_fma),
    summary="a * b + c, product and sum rounded one after the other",
    category=CATEGORY,
    aliases=("mul_add",),
)
NEG = elementwise(
    "neg",
    "x",
    FLOATS | SIGNED | PACKED_SIGNED,
    of_elements(tree.neg),
    summary="-x; the least integer stays itself",
    category=CATEGORY,
    onnx="Neg",
)
ABS = elementwise(
    "abs",
    "x",
    FLOATS | SIGNED | PACKED_SIGNED,
    of_elements(tree.absolute),
    summary="|x|; the least integer stays itself",
    category=CATEGORY,
    settings=(ACC,),
    onnx="Abs",
)
RECIP = elementwise(
    "recip",
    "x",
    FLOATS,
    _recip,
    summary="1 / x; an infinity where x is 0",
    category=CATEGORY,
    examples=(
        example(FLOATS, div_by_zero_mask=math.nan),
        example(FLOATS, div_by_zero_mask=0.5),
    ),
    settings=(_MASK,),
    check=_mask,
    aliases=("reciprocal",),
    onnx="Reciprocal",
)
SQUARE = elementwise(
    "square",
    "x",
    FLOATS | INTEGERS,
    of_elements(_square),
    summary="x * x; integers wrap",
    category=CATEGORY,
    onnx="Mul",
)
MIN = elementwise(
    "min",
    "a b",
    NUMBERS,
    _extremum(tree.minimum),
    summary="the lesser of a and b",
    category=CATEGORY,
    settings=(_NAN,),
    onnx="Min",
)
MAX = elementwise(
    "max",
    "a b",
    NUMBERS,
    _extremum(tree.maximum),
    summary="the greater of a and b",
    category=CATEGORY,
    settings=(_NAN,),
    onnx="Max",
)
