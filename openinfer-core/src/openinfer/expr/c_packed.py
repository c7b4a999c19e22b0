"""Elements of packed types in C99: several in a byte, lowest bits first (``specification: dtypes.packing``)."""

from __future__ import annotations

from openinfer.dtypes import PACKED_SINT, PACKED_UINT, T1, T2, DType, Kind
from openinfer.expr.c_types import c_type
from openinfer.expr.fragment import Call, Helper


def load_text(dtype: DType, array: str, index: str) -> Call:
    """Return the expression of the element at a flat index of an array of bytes."""
    name = f"oi_load_{dtype}"
    return Call(f"{name}({array}, {index})", (name,))


def store_text(dtype: DType, array: str, index: str, value: str) -> Call:
    """Return the call that stores an element at a flat index, and leaves its neighbours as they are."""
    name = f"oi_store_{dtype}"
    return Call(f"{name}({array}, {index}, {value})", (name,))


def packed_helpers() -> dict[str, Helper]:
    """Return the functions by name."""
    packed: dict[str, Helper] = {}
    for dtype in (*PACKED_SINT, *PACKED_UINT, T1, T2):
        packed[f"oi_load_{dtype}"] = Helper(_load(dtype))
        packed[f"oi_store_{dtype}"] = Helper(_store(dtype))
    return packed


def _shift(dtype: DType) -> str:
    per_byte = 8 // dtype.bits
    return f"(unsigned)(index % {per_byte})" + (f" * {dtype.bits}u" if dtype.bits > 1 else "")


def _load(dtype: DType) -> str:
    kind, high = c_type(dtype), 1 << (dtype.bits - 1)
    value = f"({kind})((int)(code ^ {high}u) - {high})"
    if dtype is T1:
        value = "code != 0u ? 1 : -1"
    elif dtype.kind is Kind.UNSIGNED:
        value = f"({kind})code"
    return f"""\
static inline {kind} oi_load_{dtype}(const uint8_t *array, size_t index)
{{
    const unsigned code = (unsigned)array[index / {8 // dtype.bits}] >> ({_shift(dtype)}) & {(1 << dtype.bits) - 1}u;
    return {value};
}}
"""


def _store(dtype: DType) -> str:
    mask = (1 << dtype.bits) - 1
    code = "value > 0 ? 1u : 0u" if dtype is T1 else f"(unsigned)value & {mask}u"
    declaration = f"uint8_t *const place = array + index / {8 // dtype.bits}"
    return f"""\
static inline void oi_store_{dtype}(uint8_t *array, size_t index, {c_type(dtype)} value)
{{
#if defined(__clang__)
    /* Not vectorised: clang 14 writes wrong elements there for AVX2, with -O3. */
    volatile {declaration};
#else
    {declaration};
#endif
    const unsigned shift = {_shift(dtype)};
    const unsigned code = {code};
    const unsigned others = *place & ~({mask}u << shift);
    *place = (uint8_t)(others | code << shift);
}}
"""
