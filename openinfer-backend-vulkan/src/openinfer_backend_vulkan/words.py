"""Numbers of the host as the words that stand for them in device memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.dtypes import Kind
from openinfer.scalars import encode_bits

if TYPE_CHECKING:
    from openinfer.dtypes import DType
    from openinfer.scalars import Scalar


def element_bits(dtype: DType, value: Scalar) -> int:
    """Return an element as its word of 32 bits, or its two words as one number of 64.

    Raises:
        ValueError: an integer does not fit the type.
    """
    if dtype.bits < 64 and not dtype.is_float and dtype.kind is not Kind.BOOL:
        return int(value) & 0xFFFFFFFF
    return encode_bits(dtype, value)
