"""Element types and constants in C99 (``<math.h>``, ``<stdbool.h>`` and ``<stdint.h>`` included).

An element of a low float is stored as its bits, one of a packed type as its number in a byte.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from openinfer.dtypes import (
    BF16,
    BITSET,
    BOOL,
    F8,
    F16,
    F32,
    F64,
    PACKED_SINT,
    PACKED_UINT,
    SINT,
    T1,
    T2,
    UINT,
    DType,
    Kind,
)
from openinfer.expr.tree import ExprError
from openinfer.scalars import encode_bits, round_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.scalars import Scalar

_C_TYPES = {
    F32.name: "float",
    F64.name: "double",
    BOOL.name: "bool",
    **{d.name: f"int{d.bits}_t" for d in SINT},
    **{d.name: f"uint{d.bits}_t" for d in UINT},
    F8.name: "uint8_t",
    BF16.name: "uint16_t",
    F16.name: "uint16_t",
    BITSET.name: "uint8_t",
    **{d.name: "int8_t" for d in (*PACKED_SINT, T1, T2)},
    **{d.name: "uint8_t" for d in PACKED_UINT},
}


def c_type(dtype: DType) -> str:
    """Return the C type of one element.

    Raises:
        ExprError: generated C does not hold this element type.
    """
    name = _C_TYPES.get(dtype.name)
    if name is None:
        raise ExprError(f"generated C has no element type {dtype}; it has {', '.join(_C_TYPES)}")
    return name


def item_type(dtype: DType) -> str:
    """Return the C type of an item of an array: of one element, or of the bytes that packed elements share.

    Raises:
        ExprError: generated C does not hold this element type.
    """
    element = c_type(dtype)
    return "uint8_t" if dtype.is_packed else element


def literal_text(dtype: DType, value: Scalar) -> str:
    """Return a constant, exact in its type: hexadecimal floats, and ``NAN`` or ``INFINITY`` of ``<math.h>``.

    A low float is its bits. The text may begin with a minus sign, and is legal in an initialiser.

    Raises:
        ExprError: generated C does not hold this element type.
    """
    c_type(dtype)
    if dtype.is_low_float:
        return f"0x{encode_bits(dtype, value):0{dtype.bits // 4}x}"
    if dtype.is_float:
        return _float_text(dtype, float(value))
    if dtype.kind is Kind.BOOL:
        return "true" if value else "false"
    return _integer_text(dtype, int(value))


def operand_text(literal: str) -> str:
    """Return the text of a literal as an operand of any operator."""
    return f"({literal})" if literal.startswith(("-", "(")) else literal


def literal_texts(dtype: DType, values: Sequence[float]) -> list[str]:
    """Return numbers that a float type holds as constants, each as `literal_text` returns it."""
    if not values or not all(map(math.isfinite, values)):
        return [literal_text(dtype, value) for value in values]
    # All numbers at once: weights are many. A number of type f32 ends with seven zeros at least.
    text = "\n".join(map(float.hex, values)).replace("0000000p", "p")
    while "0p" in text:
        text = text.replace("0p", "p")
    text = text.replace(".p", "p")
    return (text.replace("\n", "f\n") + "f" if dtype is F32 else text).split("\n")


def _float_text(dtype: DType, value: float) -> str:
    number = round_to(dtype, value)
    if math.isfinite(number):
        digits, exponent = number.hex().split("p")
        whole, _, fraction = digits.partition(".")
        fraction = fraction.rstrip("0")
        text = f"{whole}.{fraction}p{exponent}" if fraction else f"{whole}p{exponent}"
        return text + ("f" if dtype is F32 else "")
    special = "NAN" if math.isnan(number) else "INFINITY"
    sign = "-" if math.copysign(1.0, number) < 0 else ""
    return f"{sign}{special}" if dtype is F32 else f"{sign}(double){special}"


def _integer_text(dtype: DType, value: int) -> str:
    if value == dtype.minimum and dtype.bits >= 32 and value:
        return f"INT{dtype.bits}_MIN"
    if dtype.bits == 64:
        macro = "INT64_C" if dtype.kind is Kind.SIGNED else "UINT64_C"
        return f"{'-' if value < 0 else ''}{macro}({abs(value)})"
    return f"{value}u" if dtype.name == "u32" else str(value)
