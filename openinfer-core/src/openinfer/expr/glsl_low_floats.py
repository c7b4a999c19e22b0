"""Conversion between f32 and the low floats, stored as bits in a ``uint``, in GLSL 4.50: as `c_low_floats` does it.

No step passes through a subnormal f32 but where the number is one (of bf16), since devices may take those for zeros.
"""

from __future__ import annotations

import math

from openinfer.expr.fragment import Helper
from openinfer.expr.low_float_formats import F8_FORMAT, F16_FORMAT, NarrowFormat

_F32_FROM_BF16 = """float oi_f32_from_bf16(uint x)
{
    return uintBitsToFloat(x << 16);
}
"""

_BF16_FROM_F32 = """uint oi_bf16_from_f32(float x)
{
    uint bits = floatBitsToUint(x);
    uint rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    uint quiet = (bits >> 16 & 0x8000u) | 0x7fc0u;
    return (bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded;
}
"""

# A subnormal is its fraction times 2^-24. The exponent of other numbers is raised by 112, that of infinities and NaNs
# to the highest; NaNs get the bit that makes them quiet.
_F32_FROM_F16 = """float oi_f32_from_f16(uint x)
{
    uint size = x & 0x7fffu;
    uint small = floatBitsToUint(float(size) * uintBitsToFloat(0x33800000u));
    uint normal = (size << 13) + 0x38000000u;
    uint special = size > 0x7c00u ? 0x7fc00000u : 0x7f800000u;
    uint finite = size < 0x400u ? small : normal;
    return uintBitsToFloat((size >= 0x7c00u ? special : finite) | (x & 0x8000u) << 16);
}
"""

# Where devices keep subnormals of f16 they convert them themselves; what they make of NaNs differs.
_UNPACKED_F16 = """float oi_f32_from_f16(uint x)
{
    float quiet = uintBitsToFloat(0x7fc00000u | (x & 0x8000u) << 16);
    return (x & 0x7fffu) > 0x7c00u ? quiet : unpackHalf2x16(x).x;
}
"""

_F32_FROM_F8 = """float oi_f32_from_f8(uint x)
{
    return oi_f32_from_f16(x << 8);
}
"""


def low_float_helpers() -> dict[str, Helper]:
    """Return the functions by name."""
    return {
        "oi_f32_from_bf16": Helper(_F32_FROM_BF16),
        "oi_f32_from_f16": Helper(_F32_FROM_F16),
        "oi_f32_from_f8": Helper(_F32_FROM_F8, ("oi_f32_from_f16",)),
        "oi_bf16_from_f32": Helper(_BF16_FROM_F32),
        "oi_f16_from_f32": Helper(_narrowing(F16_FORMAT)),
        "oi_f8_from_f32": Helper(_narrowing(F8_FORMAT)),
    }


def unpacking_helpers() -> dict[str, Helper]:
    """Return those of the functions that are other ones on devices that keep subnormals of f16, by name."""
    return {"oi_f32_from_f16": Helper(_UNPACKED_F16)}


def _narrowing(form: NarrowFormat) -> str:
    """Return the function that rounds to a float of five exponent bits; an addition rounds the small numbers."""
    unused, step = form.unused, math.ldexp(1.0, form.step_exponent)
    return f"""uint oi_{form.name}_from_f32(float x)
{{
    uint bits = floatBitsToUint(x);
    uint size = bits & 0x7fffffffu;
    uint sign = bits >> {32 - form.width} & {form.sign:#x}u;
    uint normal = (size - 0x38000000u + {form.half:#x}u + (size >> {unused} & 1u)) >> {unused};
    precise float sum = uintBitsToFloat(size) + {step!r};
    uint finite = size < 0x38800000u ? floatBitsToUint(sum) - floatBitsToUint({step!r}) : normal;
    uint large = size > 0x7f800000u ? {form.quiet:#x}u : {form.infinity:#x}u;
    return sign | (size >= {form.overflow:#x}u ? large : finite);
}}
"""
