"""Totals of integers as codes, by multipliers in fixed point: for machines without floats, and for the bits of others.

The formulas are those of TensorFlow Lite (``MultiplyByQuantizedMultiplier``), which has two: with one rounding
(``TFLITE_SINGLE_ROUNDING``), and with two, those of gemmlowp's ``SaturatingRoundingDoublingHighMul`` and
``RoundingDivideByPOT``. A third multiplies totals of 64 bits by the upper half of the multiplier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import I32, I64
from openinfer.expr import tree
from openinfer.ir.types import TensorType
from openinfer.ops.catalog.quantisation import CATEGORY
from openinfer.ops.schema import (
    Elementwise,
    InputSpec,
    Operand,
    OpExample,
    OpSchema,
    SettingSpec,
    SettingType,
)
from openinfer.ops.shapes import broadcast, needed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.dtypes import DType
    from openinfer.expr.tree import Expr
    from openinfer.ir.resolved import SettingValue

    Settings = Mapping[str, SettingValue]

CODES = frozenset({"i8", "u8", "i16", "u16", "i32"})

FRACTION = 31
"""Bits of a multiplier after the point."""

LEAST_SHIFT = -31
"""Smaller shifts act as this one, as TensorFlow Lite stores none."""


def _types(
    inputs: Sequence[TensorType | None], settings: Settings, declared: Sequence[TensorType]
) -> tuple[TensorType, ...]:
    del settings, declared
    given = [needed(inputs, place) for place in range(4)]
    return (TensorType(given[-1].dtype, broadcast(*(operand.shape for operand in given))),)


def _requantized(inputs: Sequence[Expr], settings: Settings, out: DType) -> Expr:
    x, multiplier, shift, zero = inputs
    shift = tree.maximum(tree.cast(shift, I32), tree.literal(LEAST_SHIFT, I32))
    if x.dtype is I64:
        scaled = _by_upper_half(x, multiplier, shift)
    elif settings["mode"] == "fixed":
        scaled = _rounded_once(x, multiplier, shift)
    else:
        scaled = _rounded_twice(x, multiplier, shift)
    code = tree.add(scaled, tree.cast(zero, I64))
    return tree.cast(_clipped(code, out), out)


def _rounded_once(x: Expr, multiplier: Expr, shift: Expr) -> Expr:
    """Return the product, shifted right, halves up."""
    places = _wide(tree.sub(_number(FRACTION), tree.minimum(shift, _number(FRACTION - 1))))
    half = tree.shl(_one(), tree.sub(places, _one()))
    return _clipped(tree.shr(tree.add(tree.mul(_wide(x), _wide(multiplier)), half), places), I32)


def _rounded_twice(x: Expr, multiplier: Expr, shift: Expr) -> Expr:
    """Return the upper half of the doubled product, halves up, then shifted right, halves away from zero."""
    left = tree.shl(x, tree.minimum(tree.maximum(shift, _number(0)), _number(FRACTION - 1)))
    product = tree.add(tree.mul(_wide(left), _wide(multiplier)), tree.literal(1 << (FRACTION - 1), I64))
    high = _clipped(tree.shr(product, tree.literal(FRACTION, I64)), I32)
    right = _wide(tree.maximum(tree.neg(shift), _number(0)))
    half = tree.shr(tree.shl(_one(), right), _one())
    below = tree.maximum(tree.sub(half, _one()), tree.literal(0, I64))
    nudge = tree.select(tree.lt(high, tree.literal(0, I64)), below, half)
    return tree.shr(tree.add(high, nudge), right)


def _by_upper_half(x: Expr, multiplier: Expr, shift: Expr) -> Expr:
    """Return the product with the upper 16 bits of the multiplier, shifted right, halves up."""
    half_unit, largest = 1 << 15, 0x7FFF
    rounded = tree.shr(tree.add(_wide(multiplier), tree.literal(half_unit, I64)), tree.literal(16, I64))
    upper = tree.minimum(rounded, tree.literal(largest, I64))
    places = _wide(tree.sub(_number(15), tree.minimum(shift, _number(14))))
    half = tree.shl(_one(), tree.sub(places, _one()))
    return _clipped(tree.shr(tree.add(tree.mul(x, upper), half), places), I32)


def _number(value: int) -> Expr:
    return tree.literal(value, I32)


def _one() -> Expr:
    return tree.literal(1, I64)


def _wide(x: Expr) -> Expr:
    return tree.cast(x, I64)


def _clipped(x: Expr, dtype: DType) -> Expr:
    """Return an i64 within the limits of a type."""
    low, high = (tree.literal(int(limit or 0), I64) for limit in (dtype.minimum, dtype.maximum))
    return tree.minimum(tree.maximum(x, low), high)


def _example(
    x: str, codes: str, mode: str, shape: tuple[int, ...] = (3, 5), scales: tuple[int, ...] = (5,)
) -> OpExample:
    return OpExample(
        inputs=(Operand(shape=shape), *_scales(scales), Operand(shape=(), dtype=codes)),
        settings={"mode": mode},
        dtypes=frozenset({x}),
    )


def _scales(shape: tuple[int, ...]) -> tuple[Operand, Operand]:
    return Operand(shape=shape, dtype="i32"), Operand(shape=shape, dtype="i8")


REQUANTIZE = OpSchema(
    name="requantize",
    summary="x * multiplier * 2^(shift - 31), rounded in fixed point, plus zero_point, clipped",
    category=CATEGORY,
    inputs=(
        InputSpec(name="x", doc="totals"),
        InputSpec(name="multiplier", dtypes=frozenset({"i32"}), doc="31 bits after the point"),
        InputSpec(
            name="shift",
            dtypes=frozenset({"i8"}),
            doc="places to the left, from -31 to 30, of an i64 to 14",
        ),
        InputSpec(name="zero_point", dtypes=CODES, doc="of the type of the output"),
    ),
    dtypes=frozenset({"i32", "i64"}),
    settings=(
        SettingSpec(
            name="mode",
            type=SettingType.STR,
            choices=("fixed", "tflite"),
            default="fixed",
            doc="of an i32: fixed: one rounding, halves up; tflite: two, as gemmlowp has them; an i64 has one",
        ),
    ),
    infer=_types,
    definition=Elementwise(_requantized),
    broadcast=True,
    in_place=True,
    examples=(
        *(_example("i32", codes, mode) for codes in sorted(CODES) for mode in ("fixed", "tflite")),
        _example("i64", "i8", "tflite"),
        _example("i64", "i16", "fixed", (2, 3, 4), (3, 1)),
        _example("i32", "i8", "tflite", (), ()),
        _example("i32", "i8", "fixed", (0, 3), (3,)),
    ),
)
