"""Instructions of Helium, Arm's vectors for microcontrollers. GCC 12 makes scalar code of what is not among them.

All compute what plain C does, which other compilers are given, but that Helium takes subnormal f32 for zeros.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import F32, I8, I32
from openinfer_synth_c.loop_programs.vector_types import define, vector_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.dtypes import DType
    from openinfer_synth_c.code import Code

INCLUDES = """\
#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>
#endif
"""

BYTES, WORDS = 16, 4
"""Elements of a vector."""

_TYPES = {F32: "float32x4_t", I32: "int32x4_t", I8: "int8x16_t"}

_ENDS = {F32: "f32", I32: "s32"}

_COMPARED = {
    "eq": ("eq", "a", "b"),
    "ne": ("ne", "a", "b"),
    "gt": ("gt", "a", "b"),
    "ge": ("ge", "a", "b"),
    "lt": ("gt", "b", "a"),
    "le": ("ge", "b", "a"),
}
"""Comparisons by their instruction and its operands."""

_CALLS: Mapping[tuple[str, DType, DType], str] = {
    ("cast", I32, F32): "vcvtq_f32_s32({})",
    ("clip8", I32, I32): "vminq_s32(vmaxq_s32({}, vdupq_n_s32(-128)), vdupq_n_s32(127))",
    ("maximum", I32, I32): "vmaxq_s32({}, {})",
    ("minimum", I32, I32): "vminq_s32({}, {})",
    ("fma", F32, F32): "vfmaq_f32({2}, {0}, {1})",
    ("maximum", F32, F32): "vpselq_f32({1}, {0}, vcmpgtq_f32({1}, {0}) | vcmpneq_f32({0}, {0}))",
    ("minimum", F32, F32): "vpselq_f32({1}, {0}, vcmpgtq_f32({0}, {1}) | vcmpneq_f32({0}, {0}))",
}
"""Calls for functions of `openinfer.expr.tree`, by the types of the first operand and of the result."""


def in_helium(code: Code, lines: Sequence[str], plain: Sequence[str]) -> list[str]:
    """Return the body of a function with instructions of Helium, and in plain C elsewhere."""
    code.definitions.setdefault("helium", INCLUDES)
    return ["#if defined(__ARM_FEATURE_MVE)", *lines, "#else", *plain, "#endif"]


def call(code: Code, function: str, operands: Sequence[DType], result: DType, count: int) -> str | None:
    """Return a function of vectors ``a``, ``b`` and ``c`` of so many elements; None: it has no instruction."""
    template = _CALLS.get((function, operands[0], result)) if code.has_helium and count == WORDS else None
    if template is None:
        return None
    arguments = (f"({_TYPES[dtype]}){letter}" for dtype, letter in zip(operands, "abc", strict=False))
    return f"({vector_type(code, result, count)}){template.format(*arguments)}"


def choice(code: Code, comparison: str, compared: DType, result: DType, count: int) -> list[str] | None:
    """Return the body of a choice of ``c`` where ``a`` and ``b`` compare, else of ``d``; None: it has no instructions.

    "Less than" of floats holds for NaN in these instructions: operands are exchanged.
    """
    if not code.has_helium or count != WORDS or compared not in _ENDS or result not in _ENDS:
        return None
    name, first, second = _COMPARED[comparison]
    compared_with = (f"({_TYPES[compared]}){letter}" for letter in (first, second))
    test = f"vcmp{name}q_{_ENDS[compared]}({', '.join(compared_with)})"
    either = f"({_TYPES[result]})c, ({_TYPES[result]})d"
    return [f"return ({vector_type(code, result, count)})vpselq_{_ENDS[result]}({either}, {test});"]


def in_order(code: Code, count: int) -> list[str]:
    """Return what keeps GCC from computing a total ``*y`` later than where it is written.

    GCC 12 computes what one statement uses right before it: all products of a chain of sums after all loads, so that
    it stores half of what it loaded on the stack.
    """
    if not code.has_helium or count != WORDS:
        return []
    return ["#if defined(__ARM_FEATURE_MVE) && !defined(__clang__)", '__asm__("" : "+w"(*y));', "#endif"]


def axpy(code: Code, dtype: DType, count: int, plain: Sequence[str], *, is_fused: bool) -> Sequence[str]:
    """Return the body of a function that adds the product of a number ``a`` and a vector ``x`` to ``*y``."""
    if not code.has_helium or count != WORDS or dtype is not F32 or not is_fused:
        return plain
    kind = vector_type(code, dtype, count)
    return in_helium(code, [f"*y = ({kind})vfmaq_n_f32((float32x4_t)*y, (float32x4_t)x, a);"], plain)


def dot_product_of_bytes(code: Code, count: int) -> str | None:
    """Return the name of a function that adds the products of two vectors of bytes to an i32, modulo 2^32.

    None where no instruction takes that many.
    """
    if not code.has_helium or count != BYTES:
        return None
    name, kind = f"oi_dot_{I8}x{count}", vector_type(code, I8, count)
    plain = (
        "uint32_t total = (uint32_t)c;",
        f"for (int l = 0; l < {count}; ++l) {{ total += (uint32_t)(a[l] * b[l]); }}",
        "return oi_wrap_i32(total);",
    )
    code.helpers["oi_wrap_i32"] = None
    lines = in_helium(code, ["return vmladavaq_s8(c, (int8x16_t)a, (int8x16_t)b);"], plain)
    define(code, name, f"VECTOR_FUNCTION int32_t {name}(int32_t c, {kind} a, {kind} b)", lines)
    return name


def narrow_store(code: Code, pointer: str, text: str) -> str:
    """Return the statement that stores the low bytes of a vector of i32."""
    name, kind, narrow = f"oi_store_{I8}_{I32}x{WORDS}", vector_type(code, I32, WORDS), vector_type(code, I8, WORDS)
    plain = (f"const {narrow} y = __builtin_convertvector(x, {narrow});", "memcpy(p, &y, sizeof y);")
    lines = in_helium(code, ["vstrbq_s32(p, (int32x4_t)x);"], plain)
    define(code, name, f"VECTOR_FUNCTION void {name}(int8_t *p, {kind} x)", lines)
    return f"{name}({pointer}, {text});"
