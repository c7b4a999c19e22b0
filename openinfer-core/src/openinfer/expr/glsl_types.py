"""Element types and constants in GLSL 4.50.

Integers of less than 32 bits are stored in ``int`` and ``uint`` within their range, low floats as their bits in a
``uint``; 64-bit integers need an extension (`INT64`), and ``double`` needs the device feature ``shaderFloat64``.
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
    from openinfer.scalars import Scalar

INT64 = "GL_EXT_shader_explicit_arithmetic_types_int64"
"""Extension with 64-bit integers; the device needs the feature ``shaderInt64``."""

_GLSL_TYPES = {
    F32.name: "float",
    F64.name: "double",
    BOOL.name: "bool",
    **{d.name: "int64_t" if d.bits == 64 else "int" for d in SINT},
    **{d.name: "uint64_t" if d.bits == 64 else "uint" for d in UINT},
    **{d.name: "int" for d in (*PACKED_SINT, T1, T2)},
    **{d.name: "uint" for d in (*PACKED_UINT, BITSET, F8, BF16, F16)},
}
_LEAST_NORMAL = {F32.name: math.ldexp(1.0, -126), F64.name: math.ldexp(1.0, -1022)}


def glsl_type(dtype: DType) -> str:
    """Return the GLSL type in which an element is stored.

    Raises:
        ExprError: generated GLSL does not hold this element type.
    """
    name = _GLSL_TYPES.get(dtype.name)
    if name is None:
        raise ExprError(f"generated GLSL has no element type {dtype}; it has {', '.join(_GLSL_TYPES)}")
    return name


def required_extensions(dtype: DType) -> tuple[str, ...]:
    """Return the extensions that a shader enables to use the type."""
    return (INT64,) if dtype.is_integer and dtype.bits == 64 else ()


def literal_text(dtype: DType, value: Scalar) -> str:
    """Return a constant, exact in its type; the text may begin with a minus sign.

    Infinities, NaN, subnormals and the negative zero, which compilers may mistreat, are written as their bits; a low
    float is its bits.

    Raises:
        ExprError: generated GLSL does not hold this element type.
    """
    glsl_type(dtype)
    if dtype.is_low_float:
        return f"0x{encode_bits(dtype, value):0{dtype.bits // 4}x}u"
    if dtype.is_float:
        return _float_text(dtype, round_to(dtype, float(value)))
    if dtype.kind is Kind.BOOL:
        return "true" if value else "false"
    return _integer_text(dtype, int(value))


def _float_text(dtype: DType, value: float) -> str:
    plain = math.isfinite(value) and abs(value) >= _LEAST_NORMAL[dtype.name]
    if plain or (value == 0.0 and math.copysign(1.0, value) > 0):
        return repr(value) + ("lf" if dtype is F64 else "")
    bits = encode_bits(dtype, value)
    if dtype is F32:
        return f"uintBitsToFloat(0x{bits:08x}u)"
    return f"packDouble2x32(uvec2(0x{bits & 0xFFFFFFFF:08x}u, 0x{bits >> 32:08x}u))"


def _integer_text(dtype: DType, value: int) -> str:
    suffix = ("U" if dtype.kind in (Kind.UNSIGNED, Kind.BITSET) else "") + ("L" if dtype.bits == 64 else "")
    if value == dtype.minimum and dtype.bits >= 32 and value:
        return f"({value + 1}{suffix} - 1{suffix})"
    return f"{value}{suffix}"
