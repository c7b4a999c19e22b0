"""Instructions for vectors of f16: their conversion to f32 and from it.

All compute what `openinfer.expr.c_low_floats` does, NaNs included: those keep their sign and have no further bits,
where the instructions keep some of them.
"""

from __future__ import annotations

_WIDE = "defined(__AVX512F__)"
_HALF = "defined(__F16C__) && defined(__AVX__)"
_CONDITION = {4: _HALF, 8: _HALF, 16: _WIDE}
_BITS, _PREFIX = {4: "__m128i", 8: "__m128i", 16: "__m256i"}, {4: "_mm", 8: "_mm256"}


def widened(kind: str, count: int, plain: str, *, is_rounded: bool) -> list[str]:
    """Return the body of the conversion of a vector ``a`` of f16 to one of f32, which has ``count`` elements.

    Args:
        is_rounded: whether the elements were rounded from f32, so that no NaN has further bits.
    """
    if count not in _CONDITION:
        return [f"return {plain};"]
    load = [f"{_BITS[count]} bits = {_zero(count)};", "memcpy(&bits, &a, sizeof a);"]
    if count == 16:
        lines = [*load, "const __m512 y = _mm512_cvtph_ps(bits);"]
        if is_rounded:
            lines += [f"return ({kind})y;"]
        else:
            lines += [
                "const __m512i same = _mm512_castps_si512(y);",
                "const __mmask16 nan = _mm512_cmp_ps_mask(y, y, _CMP_UNORD_Q);",
                "const __m512i kept = _mm512_set1_epi32((int)0xffc00000u);",
                f"return ({kind})_mm512_mask_and_epi32(same, nan, same, kept);",
            ]
    else:
        prefix = _PREFIX[count]
        lines = [*load, f"const {_floats(count)} y = {prefix}_cvtph_ps(bits);"]
        lines += (
            [f"return ({kind})y;"]
            if is_rounded
            else [
                f"const {_floats(count)} further = {_cast(count)}({prefix}_set1_epi32(0x003fffff));",
                f"return ({kind}){prefix}_andnot_ps({prefix}_and_ps({_unordered('y', count)}, further), y);",
            ]
        )
    return [f"#if {_CONDITION[count]}", *lines, "#else", f"return {plain};", "#endif"]


def narrowed(kind: str, count: int, plain: str) -> list[str]:
    """Return the body of the conversion of a vector ``a`` of f32 to one of f16, which has ``count`` elements."""
    if count not in _CONDITION:
        return [f"return {plain};"]
    if count == 16:
        lines = [
            "const __mmask16 nan = _mm512_cmp_ps_mask((__m512)a, (__m512)a, _CMP_UNORD_Q);",
            "const __m512i sign = _mm512_set1_epi32((int)0x80000000u), quiet = _mm512_set1_epi32(0x7fc00000);",
            # The sign, or the bits of the quiet NaN.
            "const __m512i x = _mm512_mask_ternarylogic_epi32((__m512i)a, nan, sign, quiet, 0xea);",
            "const __m256i bits = _mm512_cvtps_ph(_mm512_castsi512_ps(x), 0);",
        ]
    else:
        prefix = _PREFIX[count]
        sign, quiet = (f"{_cast(count)}({prefix}_set1_epi32({bits}))" for bits in ("(int)0x80000000u", "0x7fc00000"))
        lines = [
            f"const {_floats(count)} x = ({_floats(count)})a;",
            f"const {_floats(count)} none = {prefix}_or_ps({prefix}_and_ps(x, {sign}), {quiet});",
            f"const __m128i bits = {prefix}_cvtps_ph({prefix}_blendv_ps(x, none, {_unordered('x', count)}), 0);",
        ]
    lines += [f"{kind} y;", "memcpy(&y, &bits, sizeof y);", "return y;"]
    return [f"#if {_CONDITION[count]}", *lines, "#else", f"return {plain};", "#endif"]


def _zero(count: int) -> str:
    return "_mm256_setzero_si256()" if count == 16 else "_mm_setzero_si128()"


def _floats(count: int) -> str:
    return {4: "__m128", 8: "__m256"}[count]


def _cast(count: int) -> str:
    return {4: "_mm_castsi128_ps", 8: "_mm256_castsi256_ps"}[count]


def _unordered(x: str, count: int) -> str:
    """Return the mask of NaNs in a vector."""
    return f"{_PREFIX[count]}_cmp_ps({x}, {x}, _CMP_UNORD_Q)"
