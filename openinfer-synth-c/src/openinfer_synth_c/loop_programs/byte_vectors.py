"""Instructions for vectors of bytes: their dot products, and wider integers and words made from them.

All compute what plain C does. GCC takes conversions of vectors apart into their elements where others follow them,
which it does not do to these.
"""

from __future__ import annotations

INCLUDES = """\
#if defined(__SSE4_1__)
#include <immintrin.h>
#elif defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#endif
"""

_REGISTER = {4: "__m128i", 8: "__m256i", 16: "__m512i"}
_PREFIX = {4: "_mm", 8: "_mm256", 16: "_mm512"}
_WIDENS = {4: "defined(__SSE4_1__)", 8: "defined(__AVX2__)", 16: "defined(__AVX512F__)"}


def dot_product(kind: str, count: int, plain: str) -> list[str]:
    """Return the body of `openinfer.expr.tree.dot4` of vectors ``a``, ``b`` and ``c`` with ``count`` elements.

    x86-64 has an instruction for bytes without sign by bytes with sign, which is the function itself. Arm has one for
    bytes with sign on both sides: with ``a - 128`` in place of ``a`` it omits 128 times the sum of ``b``, which two
    more of them add. ``plain`` is the value where the compiler supports neither.
    """
    if count not in _REGISTER:
        return [f"return {plain};"]
    register = _REGISTER[count]
    call = f"({register})c, ({register})a, ({register})b"
    wide = "defined(__AVX512VNNI__)" if count == 16 else "defined(__AVX512VNNI__) && defined(__AVX512VL__)"
    lines = [f"#if {wide}", f"return ({kind}){_PREFIX[count]}_dpbusd_epi32({call});"]
    if count < 16:
        lines += ["#elif defined(__AVXVNNI__)", f"return ({kind}){_PREFIX[count]}_dpbusd_avx_epi32({call});"]
    if count == 4:
        lines += [
            "#elif defined(__ARM_FEATURE_DOTPROD)",
            "const int8x16_t signed_a = vreinterpretq_s8_u8(veorq_u8((uint8x16_t)a, vdupq_n_u8(128)));",
            "const int8x16_t half = vdupq_n_s8(64);",
            "const int32x4_t rest = vdotq_s32(vdotq_s32((int32x4_t)c, half, (int8x16_t)b), half, (int8x16_t)b);",
            f"return ({kind})vdotq_s32(rest, signed_a, (int8x16_t)b);",
        ]
    return [*lines, "#else", f"return {plain};", "#endif"]


def widened(kind: str, count: int, plain: str, *, signed: bool) -> list[str]:
    """Return the body of the conversion of a vector ``a`` of bytes to one of i32, which has ``count`` elements."""
    if count not in _REGISTER:
        return [f"return {plain};"]
    return [
        f"#if {_WIDENS[count]}",
        "__m128i bytes = _mm_setzero_si128();",
        "memcpy(&bytes, &a, sizeof a);",
        f"return ({kind}){_PREFIX[count]}_cvtep{'i' if signed else 'u'}8_epi32(bytes);",
        "#else",
        f"return {plain};",
        "#endif",
    ]


def rounded_16(
    kind: str, bits: int, limits: tuple[str, str], whole_from: str, plain: str, *, signed: bool
) -> list[str]:
    """Return the body of the conversion of 16 lanes ``a`` of f32 to the nearest integers of 8 or 16 bits.

    GCC 12 compares and masks where AVX-512 has a maximum and a minimum: five operations a register instead of three.

    Args:
        bits: those of an integer.
        limits: the least and the greatest integer, as literals of f32.
        whole_from: literal of the f32 whose sum with a number has the nearest integer in its lowest bits.
        signed: whether 0, which NaN becomes, is not the least integer.
    """
    # Of a NaN and a number, x86-64 takes the second one for the maximum.
    number = "_mm512_maskz_mov_ps(_mm512_cmp_ps_mask((__m512)a, (__m512)a, _CMP_ORD_Q), (__m512)a)"
    least = f"_mm512_max_ps({number if signed else '(__m512)a'}, _mm512_set1_ps({limits[0]}))"
    whole = f"_mm512_add_ps(limited, _mm512_set1_ps({whole_from}))"
    return [
        "#if defined(__AVX512F__)",
        f"const __m512 limited = _mm512_min_ps({least}, _mm512_set1_ps({limits[1]}));",
        f"return ({kind})_mm512_cvtepi32_epi{bits}(_mm512_castps_si512({whole}));",
        "#else",
        f"return {plain};",
        "#endif",
    ]


def word(kind: str, count: int, plain: str) -> list[str]:
    """Return the body of `openinfer.expr.tree.word` of vectors ``a`` to ``d`` of bytes, with ``count`` elements."""
    if count not in _REGISTER:
        return [f"return {plain};"]
    loads = [
        line
        for letter in "abcd"
        for line in (
            f"__m128i bytes_{letter} = _mm_setzero_si128();",
            f"memcpy(&bytes_{letter}, &{letter}, sizeof {letter});",
        )
    ]
    if count == 4:
        halves = [f"_mm_unpacklo_epi8(bytes_{x}, bytes_{y})" for x, y in ("ab", "cd")]
        return [
            "#if defined(__SSE4_1__)",
            *loads,
            f"return ({kind})_mm_unpacklo_epi16({', '.join(halves)});",
            "#else",
            f"return {plain};",
            "#endif",
        ]
    order = ", ".join(str(place) for place in _interleaved(count))
    if count == 8:
        pairs = [f"_mm256_castsi128_si256(_mm_unpacklo_epi64(bytes_{x}, bytes_{y}))" for x, y in ("ab", "cd")]
    else:
        pairs = [
            f"_mm512_castsi256_si512(_mm256_inserti128_si256(_mm256_castsi128_si256(bytes_{x}), bytes_{y}, 1))"
            for x, y in ("ab", "cd")
        ]
    return [
        "#if defined(__AVX512VBMI__) && defined(__AVX512VL__)",
        f"static const uint8_t order[{4 * count}] = {{{order}}};",
        *loads,
        f"{_REGISTER[count]} places;",
        "memcpy(&places, order, sizeof places);",
        f"return ({kind}){_PREFIX[count]}_permutex2var_epi8({pairs[0]}, places, {pairs[1]});",
        "#else",
        f"return {plain};",
        "#endif",
    ]


def _interleaved(count: int) -> list[int]:
    """Return where each byte of the words lies in two registers: ``a`` and ``b`` in a row, and ``c`` and ``d``."""
    return [lane + part % 2 * count + part // 2 * 4 * count for lane in range(count) for part in range(4)]
