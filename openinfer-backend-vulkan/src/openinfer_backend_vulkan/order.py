"""The order of elements of a type, as kernels that compare and do not compute need it: see ``order.glsl``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import F64, Kind
from openinfer.scalars import encode_bits

if TYPE_CHECKING:
    from openinfer.dtypes import DType


def order_values(dtype: DType) -> dict[str, object]:
    """Return what ``order.glsl`` is rendered with for keys of a type."""
    if dtype.is_float and dtype is not F64:
        infinity = encode_bits(dtype, float("inf"))
        return {"order": "float", "sign": 1 << (dtype.bits - 1), "infinity": infinity}
    signed = dtype.kind in (Kind.SIGNED, Kind.TERNARY)
    narrow, wide = ("int", "long") if signed else ("uint", "ulong")
    return {"order": "double" if dtype.is_float else wide if dtype.bits == 64 else narrow}
