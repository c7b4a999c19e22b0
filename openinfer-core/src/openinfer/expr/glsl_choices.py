"""A choice of two values in GLSL that keeps their bits."""

from __future__ import annotations

from itertools import permutations

from openinfer.dtypes import F32, DType
from openinfer.expr.glsl_types import literal_text


def choice_text(dtype: DType, condition: str, first: str, second: str) -> str:
    """Return the expression of a choice between operands, which are names or parenthesised."""
    mixed = _ONES_AND_ZEROS.get((first, second)) if dtype is F32 else None
    if mixed is None:
        return f"{condition} ? {first} : {second}"
    # Mesa's compiler takes such a choice for a conversion from bool or its negative, which has the other zero.
    return f"uintBitsToFloat(({condition} ? {mixed[0] ^ 1:#x}u : {mixed[1] ^ 1:#x}u) ^ 1u)"


def _operand(value: float) -> str:
    text = literal_text(F32, value)
    return f"({text})" if text.startswith("-") else text


_ONES_AND_ZEROS = {
    (_operand(a), _operand(b)): (a_bits, b_bits)
    for (a, a_bits), (b, b_bits) in permutations(((1.0, 0x3F800000), (-1.0, 0xBF800000), (0.0, 0), (-0.0, 1 << 31)), 2)
    if abs(a) != abs(b) and (a_bits ^ b_bits) >> 31
}
"""By their texts, the bits of one and zero in either order where their signs differ."""
