"""Bits of integers, and logic on bool."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from openinfer import dims
from openinfer.dtypes import BOOL, U8, U16, U32, U64, DType, Kind
from openinfer.expr import tree
from openinfer.expr.sizes import number
from openinfer.ops.dtype_sets import BITSETS, BOOLS, INTEGERS, PACKED_SIGNED, PACKED_UNSIGNED
from openinfer.ops.elementwise import elementwise, example
from openinfer.ops.schema import Elementwise, SettingSpec, SettingType
from openinfer.ops.shapes import integer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.expr.tree import Expr
    from openinfer.ir.resolved import SettingValue
    from openinfer.ops.schema import BuildScalar, OpSchema

    Settings = Mapping[str, SettingValue]

CATEGORY = "bitwise"
_BITWISE = INTEGERS | PACKED_SIGNED | PACKED_UNSIGNED | BITSETS | BOOLS
_SHIFTED = INTEGERS | BITSETS | {"i2", "i4", "u2", "u4"}
_PLACES = tuple(example(_SHIFTED, bits=bits) for bits in (1, 0, -3, 7, 64))

_BITS = SettingSpec(name="bits", type=SettingType.INT, doc="places to shift by; below 0 acts as 0")
_UNSIGNED_OF = {8: U8, 16: U16, 32: U32, 64: U64}


def _either(bits: Callable[..., Expr], logic: Callable[..., Expr]) -> BuildScalar:
    def build(inputs: Sequence[Expr], settings: Settings, out: DType) -> Expr:
        del settings, out
        return (logic if inputs[0].dtype is BOOL else bits)(*inputs)

    return build


def _shift(function: Callable[[Expr, Expr], Expr]) -> BuildScalar:
    def build(inputs: Sequence[Expr], settings: Settings, out: DType) -> Expr:
        count = dims.min(dims.max(integer(settings.get("bits"), "bits"), 0), out.bits)
        return function(inputs[0], number(count, inputs[0].dtype))

    return build


def _popcount(inputs: Sequence[Expr], settings: Settings, out: DType) -> Expr:
    """Return the number of set bits: sums of neighbouring fields of doubled width, within the element's own width."""
    del settings, out
    element = inputs[0].dtype
    unsigned = _UNSIGNED_OF[max(element.bits, 8)]
    total = tree.cast(inputs[0], unsigned)
    if element.is_packed and element.kind is Kind.SIGNED:
        # The cast repeats the sign in the bits above the element's own.
        total = tree.bit_and(total, tree.literal((1 << element.bits) - 1, unsigned))
    field = 1
    while field < unsigned.bits:
        mask = tree.literal(_field_mask(unsigned.bits, field), unsigned)
        upper = tree.shr(total, tree.literal(field, unsigned))
        total = tree.add(tree.bit_and(total, mask), tree.bit_and(upper, mask))
        field *= 2
    return tree.cast(total, U8)


def _field_mask(bits: int, field: int) -> int:
    """Return the number with the lower half of every ``2 * field`` bits set."""
    return sum(((1 << field) - 1) << place for place in range(0, bits, 2 * field))


def _logic(name: str, inputs: str, build: BuildScalar, summary: str, onnx: str) -> OpSchema:
    return elementwise(name, inputs, _BITWISE, build, summary=summary, category=CATEGORY, onnx=onnx)


AND = _logic("and", "a b", _either(tree.bit_and, tree.logical_and), "bitwise AND; logical AND of bools", "BitwiseAnd")
OR = _logic("or", "a b", _either(tree.bit_or, tree.logical_or), "bitwise OR; logical OR of bools", "BitwiseOr")
XOR = _logic("xor", "a b", _either(tree.bit_xor, tree.logical_xor), "bitwise XOR; logical XOR of bools", "BitwiseXor")
NOT = _logic("not", "x", _either(tree.bit_not, tree.logical_not), "bitwise NOT; logical NOT of bools", "BitwiseNot")

SHL = elementwise(
    "shl",
    "x",
    _SHIFTED,
    _shift(tree.shl),
    summary="x * 2^bits modulo 2^width; 0 from the width on",
    category=CATEGORY,
    examples=_PLACES,
    settings=(_BITS,),
    aliases=("shift_left",),
    onnx="BitShift",
)
SHR = elementwise(
    "shr",
    "x",
    _SHIFTED,
    _shift(tree.shr),
    summary="x shifted right, keeping the sign; from the width on 0, or -1 for negatives",
    category=CATEGORY,
    examples=_PLACES,
    settings=(_BITS,),
    aliases=("shift_right",),
    onnx="BitShift",
)
POPCOUNT = replace(
    elementwise(
        "popcount",
        "x",
        _SHIFTED,
        _popcount,
        summary="number of set bits within the width",
        category=CATEGORY,
        result=U8,
    ),
    definition=Elementwise(_popcount),  # of the element itself: a widened negative would have more bits set
)
