"""Bodies of C functions on words of bytes and pairs: plain C, and instructions of Arm where the compiler has them."""

from __future__ import annotations


def dot4(factor: str) -> tuple[str, ...]:
    """Return the body of a product of bytes; ``factor`` is that of ``a``, whose byte is ``left``."""
    return (
        "uint32_t total = (uint32_t)c;",
        "for (int low = 0; low < 32; low += 8) {",
        "    const uint32_t left = (uint32_t)a >> low & 255u;",
        "    const uint32_t right = (uint32_t)b >> low & 255u;",
        f"    total += {factor} * (right - ((right & 128u) << 1));",
        "}",
        "return oi_wrap_i32(total);",
    )


SDOT4 = (
    "#if defined(__GNUC__) && defined(__ARM_FEATURE_DSP)",
    "/* Even and odd bytes as pairs of 16 bits. GCC 12 has no SXTB16 with a rotation but in assembly. */",
    "int32_t even_a, odd_a, even_b, odd_b;",
    '__asm__("sxtb16 %0, %1" : "=r"(even_a) : "r"(a));',
    '__asm__("sxtb16 %0, %1, ror #8" : "=r"(odd_a) : "r"(a));',
    '__asm__("sxtb16 %0, %1" : "=r"(even_b) : "r"(b));',
    '__asm__("sxtb16 %0, %1, ror #8" : "=r"(odd_b) : "r"(b));',
    '__asm__("smlad %0, %1, %2, %0" : "+r"(c) : "r"(even_a), "r"(even_b));',
    '__asm__("smlad %0, %1, %2, %0" : "+r"(c) : "r"(odd_a), "r"(odd_b));',
    "return c;",
    "#else",
    *dot4("(left - ((left & 128u) << 1))"),
    "#endif",
)


DOT2 = (
    "#if defined(__GNUC__) && defined(__ARM_FEATURE_DSP)",
    '__asm__("smlad %0, %1, %2, %0" : "+r"(c) : "r"(a), "r"(b));',
    "return c;",
    "#else",
    "uint32_t total = (uint32_t)c;",
    "for (int low = 0; low < 32; low += 16) {",
    "    const uint32_t left = (uint32_t)a >> low & 65535u;",
    "    const uint32_t right = (uint32_t)b >> low & 65535u;",
    "    total += (left - ((left & 32768u) << 1)) * (right - ((right & 32768u) << 1));",
    "}",
    "return oi_wrap_i32(total);",
    "#endif",
)


WIDEN = (
    "#if defined(__GNUC__) && defined(__ARM_FEATURE_DSP)",
    "int32_t pair;",
    "if (n & 1) {",
    '    __asm__("sxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(x));',
    "} else {",
    '    __asm__("sxtb16 %0, %1" : "=r"(pair) : "r"(x));',
    "}",
    "return pair;",
    "#else",
    "const uint32_t bytes = (uint32_t)x >> ((uint32_t)n & 1u) * 8u;",
    "const uint32_t low = ((bytes & 255u) ^ 128u) - 128u;",
    "const uint32_t high = ((bytes >> 16 & 255u) ^ 128u) - 128u;",
    "return oi_wrap_i32((low & 65535u) | high << 16);",
    "#endif",
)


SCALE = """\
static int32_t oi_scale_by_float(float m, int32_t x)
{
    const float y = m * (float)x;
    if (y >= 511.0f) { return 511; }
    if (y <= -512.0f) { return -512; }
    return oi_wrap_i32(oi_to_bits_f32(y + 12582912.0f) - 0x4B400000u);
}

/* Below 512 f32 rounds a product by less than 2^-14: farther from a half than that, integers round it to the same. */
static int oi_scale_is_half(int64_t product, int shift)
{
    const uint64_t half = (uint64_t)1 << (shift + 31);
    const uint64_t above = ((uint64_t)product & (2 * half - 1)) - half;
    return above + (half >> 13) <= half >> 12;
}

#if defined(__GNUC__)
__attribute__((noinline))
#endif
static int32_t oi_scale_i32(float m, int32_t x)
{
    const uint32_t bits = oi_to_bits_f32(m);
    const int shift = 125 - (int)(bits >> 23);
    if (shift < 1 || shift > 30) { return oi_scale_by_float(m, x); }
    const int32_t factor = (int32_t)((bits & 0x7FFFFFu) << 7 | 0x40000000u);
    const int64_t product = (int64_t)x * factor;
    const uint32_t high = (uint32_t)((uint64_t)product >> 32);
    const uint32_t half = (uint32_t)1 << (shift - 1);
    const uint32_t margin = (half >> 13) + 1u;
    const uint32_t above = (high & (2u * half - 1u)) - half;
    if (above + margin <= 2u * margin && oi_scale_is_half(product, shift)) { return oi_scale_by_float(m, x); }
    const int32_t y = oi_shr_i32(oi_wrap_i32(high + half), shift);
    return y < -512 ? -512 : y > 511 ? 511 : y;
}
"""


REQUANTISE = """\
#if defined(__GNUC__)
__attribute__((noinline, cold))
#endif
static int32_t oi_requantise_by_float(int32_t m, int32_t x, int32_t n, int32_t z)
{
    const float y = (float)m * oi_from_bits_u32((uint32_t)(95 - n) << 23) * (float)x;
    const float near = y > 511.0f ? 511.0f : y < -512.0f ? -512.0f : y;
    const int32_t code = (int32_t)(oi_to_bits_f32(near + 12582912.0f) & 0x7FFFFFu) - 0x400000;
    return code + z < -128 ? -128 : code + z > 127 ? 127 : code + z;
}

/* Below 512 f32 rounds both the total and the product by less than 2^-15: farther from a half than 2^-14, integers
   round to the same. What lies beyond is clipped. */
#if defined(__GNUC__)
__attribute__((noinline))
#endif
static int32_t oi_requantise_i32(int32_t m, int32_t x, int32_t n, int32_t z)
{
    const int64_t product = (int64_t)m * x;
    const uint32_t fraction = (uint32_t)((uint64_t)product >> n);
    int32_t y;
    if (fraction - 0x7FFC0000u <= 0x80000u) { return oi_requantise_by_float(m, x, n, z); }
    y = oi_shr_i32(oi_wrap_i32((uint32_t)((uint64_t)product >> 32)), n);
    y = oi_wrap_i32((uint32_t)y + (fraction >> 31) + (uint32_t)z);
    return y < -128 ? -128 : y > 127 ? 127 : y;
}
"""


CLIP8 = (
    "#if defined(__GNUC__) && defined(__ARM_FEATURE_SAT)",
    "/* GCC 12 makes SSAT of comparisons only where their numbers are not in registers already. */",
    "int32_t y;",
    '__asm__("ssat %0, #8, %1" : "=r"(y) : "r"(x));',
    "return y;",
    "#else",
    "return x < -128 ? -128 : x > 127 ? 127 : x;",
    "#endif",
)
