"""Conversion between f32 and the low floats in C99: exact when widening, to nearest and ties to even when narrowing.

Low floats are their bits. A NaN keeps its sign and becomes the quiet one that has no further bits
(``specification: dtypes.rounding``).
"""

from __future__ import annotations

from openinfer.expr.fragment import Helper
from openinfer.expr.low_float_formats import F8_FORMAT, F16_FORMAT, NarrowFormat

_BITS = """\
static inline uint32_t oi_bits_of_f32(float x)
{
    union { float number; uint32_t bits; } both;
    both.number = x;
    return both.bits;
}
"""

_NUMBER = """\
static inline float oi_f32_of_bits(uint32_t x)
{
    union { float number; uint32_t bits; } both;
    both.bits = x;
    return both.number;
}
"""

_F32_FROM_BF16 = """\
static inline float oi_f32_from_bf16(uint16_t x)
{
    return oi_f32_of_bits((uint32_t)x << 16);
}
"""

_BF16_FROM_F32 = """\
static inline uint16_t oi_bf16_from_f32(float x)
{
    const uint32_t bits = oi_bits_of_f32(x);
    const uint32_t rounded = (bits + UINT32_C(0x7fff) + (bits >> 16 & 1u)) >> 16;
    const uint32_t quiet = (bits >> 16 & 0x8000u) | 0x7fc0u;
    return (uint16_t)((bits & UINT32_C(0x7fffffff)) > UINT32_C(0x7f800000) ? quiet : rounded);
}
"""

# The fraction and exponent are moved into place, which makes a number 2^112 times too small; subnormals come out right.
# Infinities and NaNs get the highest exponent, and NaNs the bit that keeps functions of libraries quiet.
_F32_FROM_F16 = """\
static inline float oi_f32_from_f16(uint16_t x)
{
    const uint32_t size = x & 0x7fffu;
    const uint32_t finite = oi_bits_of_f32(oi_f32_of_bits(size << 13) * 0x1p112f);
    const uint32_t special = size > 0x7c00u ? UINT32_C(0x7fc00000) : size == 0x7c00u ? UINT32_C(0x7f800000) : 0u;
    return oi_f32_of_bits(finite | special | (uint32_t)(x & 0x8000u) << 16);
}
"""

_F32_FROM_F8 = """\
static inline float oi_f32_from_f8(uint8_t x)
{
    return oi_f32_from_f16((uint16_t)(x << 8));
}
"""


def low_float_helpers() -> dict[str, Helper]:
    """Return the functions by name."""
    bits, number = "oi_bits_of_f32", "oi_f32_of_bits"
    return {
        bits: Helper(_BITS),
        number: Helper(_NUMBER),
        "oi_f32_from_bf16": Helper(_F32_FROM_BF16, (number,)),
        "oi_f32_from_f16": Helper(_F32_FROM_F16, (bits, number)),
        "oi_f32_from_f8": Helper(_F32_FROM_F8, ("oi_f32_from_f16",)),
        "oi_bf16_from_f32": Helper(_BF16_FROM_F32, (bits,)),
        "oi_f16_from_f32": Helper(_narrowing(F16_FORMAT), (bits,)),
        "oi_f8_from_f32": Helper(_narrowing(F8_FORMAT), (bits,)),
    }


def _narrowing(form: NarrowFormat) -> str:
    """Return the function that rounds to a float of five exponent bits.

    Below the smallest normal number an addition rounds: the sum has the bits of ``step``, whose last place is the
    smallest subnormal, and after them the number of steps.
    """
    width, unused, step = form.width, form.unused, f"0x1p{form.step_exponent}f"
    return f"""\
static inline uint{width}_t oi_{form.name}_from_f32(float x)
{{
    const uint32_t bits = oi_bits_of_f32(x);
    const uint32_t size = bits & UINT32_C(0x7fffffff);
    const uint32_t sign = bits >> {32 - width} & {form.sign:#x}u;
    const uint32_t even = size >> {unused} & 1u;
    const uint32_t normal = (size - UINT32_C(0x38000000) + UINT32_C({form.half:#x}) + even) >> {unused};
    const uint32_t small = oi_bits_of_f32(fabsf(x) + {step}) - oi_bits_of_f32({step});
    const uint32_t finite = size < UINT32_C(0x38800000) ? small : normal;
    const uint32_t large = size > UINT32_C(0x7f800000) ? {form.quiet:#x}u : {form.infinity:#x}u;
    return (uint{width}_t)(sign | (size >= UINT32_C({form.overflow:#x}) ? large : finite));
}}
"""
