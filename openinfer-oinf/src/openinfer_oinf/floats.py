"""bf16 and f8 (E5M2): rounding to nearest, ties to even, and exact widening.

bf16 is the upper half of binary32 and E5M2 the upper half of binary16; conversions work on the bits. A NaN becomes
the canonical quiet NaN of its sign.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_BF16_QUIET = 0x7FC0
_F8_QUIET = 0x7E
_F8_INFINITY = 0x7C
_F8_SMALLEST_NORMAL = 0x38800000  # 2**-14 in binary32
_F32_INFINITY = 0x7F800000


def bf16_from_f32(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Bits of the nearest bf16 of each binary32 value."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = bits >> np.uint32(16)
    rounded &= np.uint32(1)
    rounded += np.uint32(0x7FFF)
    rounded += bits
    rounded >>= np.uint32(16)
    codes = rounded.astype(np.uint16)
    nan = np.isnan(values)
    if nan.any():
        codes[nan] = (bits[nan] >> np.uint32(16)) & np.uint32(0x8000) | np.uint32(_BF16_QUIET)
    return codes


def f32_from_bf16(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """The binary32 value of each bf16, exactly."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def f8_from_f32(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Bits of the nearest E5M2 of each binary32 value.

    Normal results are rounded on the bits. For subnormal ones 128 is added, whose last place is 2**-16, the smallest
    E5M2 value: the addition rounds, and leaves the code in the lowest bits.
    """
    bits = np.ascontiguousarray(values).view(np.uint32)
    magnitudes = bits & np.uint32(0x7FFFFFFF)
    codes = magnitudes >> np.uint32(21)
    codes &= np.uint32(1)
    codes += np.uint32(0x0FFFFF)
    codes += magnitudes
    codes >>= np.uint32(21)
    # The exponent bias goes from 127 to 15; what wraps around below zero is replaced next.
    codes -= np.uint32(112 << 2)
    np.minimum(codes, np.uint32(_F8_INFINITY), out=codes)
    small = magnitudes < np.uint32(_F8_SMALLEST_NORMAL)
    if small.any():
        shifted = (magnitudes[small].view(np.float32) + np.float32(128)).view(np.uint32)
        codes[small] = shifted - np.float32(128).view(np.uint32)
    codes[magnitudes > np.uint32(_F32_INFINITY)] = _F8_QUIET
    codes |= (bits >> np.uint32(24)) & np.uint32(0x80)
    return codes.astype(np.uint8)


def f32_from_f8(bits: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The binary32 value of each E5M2 code, exactly."""
    halves: NDArray[Any] = (bits.astype(np.uint16) << np.uint16(8)).view(np.float16)
    return halves.astype(np.float32)
