"""Filling, and conversion between element types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import BOOL, T1, U8, U64, DType, Kind
from openinfer.expr import tree
from openinfer.expr.sizes import number
from openinfer.ir.types import TensorType
from openinfer.ops.conversion import converted
from openinfer.ops.dtype_sets import BITSETS, BOOLS, FLOATS, NUMBERS, SIGNED, TERNARY
from openinfer.ops.elementwise import elementwise, example, work_type
from openinfer.ops.rounding import MODES, rounded
from openinfer.ops.scalar_settings import scalar_setting, scalars_fit
from openinfer.ops.schema import Elementwise, InputSpec, OpSchema, OpTypeError, Refusal, SettingSpec, SettingType
from openinfer.ops.shapes import needed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.expr.tree import Expr
    from openinfer.ir.resolved import SettingValue

    Settings = Mapping[str, SettingValue]

CATEGORY = "mutation"
WITHOUT_SIGN = "t1 is -1 or 1, and what is NaN or rounds to 0 becomes 1 with saturate=true only"
"""What is reported of an element that `CAST` refuses."""

_CAST = NUMBERS | BOOLS | BITSETS | TERNARY


def _fill(inputs: Sequence[Expr], settings: Settings, out: DType) -> Expr:
    return number(scalar_setting(settings, "value", out), inputs[0].dtype)


def _target(settings: Settings) -> DType:
    """Return the type to convert to.

    Raises:
        OpTypeError: it is not a type.
    """
    target = settings.get("to")
    if not isinstance(target, DType):
        raise OpTypeError(f"setting 'to' takes a dtype, found {target!r}", code="setting-type", settings=("to",))
    return target


def _cast_types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del declared
    mode = settings.get("rounding_mode")
    if mode not in MODES:
        raise OpTypeError(
            f"unknown rounding mode {mode!r}; known: {', '.join(MODES)}",
            code="setting-type",
            settings=("rounding_mode",),
        )
    return (TensorType(_target(settings), needed(inputs).shape),)


def _cast(inputs: Sequence[Expr], settings: Settings, out: DType) -> Expr:
    x, target = _number(inputs[0], settings), _target(settings)
    wraps = target.kind is not Kind.TERNARY and not settings.get("saturate")
    if _is_integer(target) and wraps:
        return tree.cast(_modulo(x, out.bits) if x.dtype.is_float else x, out)
    return converted(x, out)


def _number(element: Expr, settings: Settings) -> Expr:
    """Return what is converted: an element in its work type, a bool as a number and a float rounded where need be."""
    x, target = tree.cast(element, work_type(element.dtype)), _target(settings)
    if x.dtype is BOOL and target is not BOOL:
        x = tree.cast(x, U8)
    if _is_integer(target) and x.dtype.is_float:
        x = rounded(x, str(settings.get("rounding_mode")))
    return x


def _is_integer(target: DType) -> bool:
    return target is not BOOL and not target.is_float


def _without_sign(inputs: Sequence[Expr], settings: Settings) -> Expr | None:
    """Whether the element is 0 once it is rounded, or NaN, where t1 is to hold the sign and nothing else is said."""
    if settings.get("to") is not T1 or settings.get("saturate") is not False:
        return None
    x = _number(inputs[0], settings)
    is_zero = tree.eq(x, tree.literal(0, x.dtype))
    return tree.logical_or(is_zero, tree.is_nan(x)) if x.dtype.is_float else is_zero


def _modulo(whole: Expr, bits: int) -> Expr:
    """Return a whole float modulo 2^bits, as an integer; NaN and infinities yield 0."""
    remainder = tree.rem(whole, tree.literal(2.0**bits, whole.dtype))
    magnitude = tree.cast(tree.absolute(remainder), U64)
    return tree.select(tree.sign_bit(remainder), tree.neg(magnitude), magnitude)


FILL = elementwise(
    "fill",
    "x",
    NUMBERS | BOOLS | BITSETS | TERNARY,
    _fill,
    summary="a tensor of x's shape, all `value`",
    category=CATEGORY,
    examples=(
        example((NUMBERS - {"i1"}) | TERNARY, value=1),
        example(FLOATS, value=0.1),
        example(SIGNED | TERNARY | {"i1"}, value=-1),
        example(BOOLS, value=True),
        example(BITSETS, value=200),
    ),
    settings=(SettingSpec(name="value", type=SettingType.SCALAR, doc="what to fill with"),),
    check=scalars_fit("value"),
    aliases=("full_like",),
    onnx="ConstantOfShape",
)
CAST = OpSchema(
    name="cast",
    summary="x as another type: floats round, integers clip (or wrap with saturate=false); bool is x != 0, "
    "t1 the sign of x once rounded",
    category=CATEGORY,
    inputs=(InputSpec(name="x"),),
    dtypes=_CAST,
    settings=(
        SettingSpec(name="to", type=SettingType.DTYPE, doc="the type to convert to"),
        SettingSpec(
            name="rounding_mode",
            type=SettingType.STR,
            default="trunc",
            aliases=("rounding",),
            choices=MODES,
            doc="how floats become integers and ternaries",
        ),
        SettingSpec(
            name="saturate",
            type=SettingType.BOOL,
            default=True,
            doc="whether integers that do not fit become the nearest limit, or wrap; those for t1 and t2 never wrap, "
            "and 0 for t1 becomes 1, or is an error",
        ),
    ),
    infer=_cast_types,
    definition=Elementwise(_cast, Refusal(_without_sign, WITHOUT_SIGN)),
    in_place=True,
    onnx="Cast",
)
