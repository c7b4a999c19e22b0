"""bf16 and f8 (E5M2): rounding to nearest, ties to even, and exact widening.

bf16 is the upper half of binary32 and E5M2 the upper half of binary16, so both conversions work on the
bits of those formats. A NaN becomes the canonical quiet NaN of its sign.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_BF16_QUIET = 0x7FC0
_F8_QUIET = 0x7E


def bf16_from_f32(values: NDArray[np.float32]) -> NDArray[np.uint16]:
    """Bits of the nearest bf16 of each binary32 value."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = ((bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) >> np.uint32(16)).astype(
        np.uint16
    )
    nan = np.isnan(values)
    if nan.any():
        signs = (bits >> np.uint32(16)).astype(np.uint16) & np.uint16(0x8000)
        rounded = np.where(nan, signs | np.uint16(_BF16_QUIET), rounded)
    return rounded


def f32_from_bf16(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """The binary32 value of each bf16, exactly."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def f8_from_f32(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Bits of the nearest E5M2 of each binary32 value.

    Goes by way of binary16 rounded to odd (truncated, lowest bit set when anything was lost), which keeps
    the second rounding correct: Boldo and Melquiond, "When double rounding is odd", 2005.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        halves = values.astype(np.float16)
        back = halves.astype(np.float32)
        bits = halves.view(np.uint16)
        bits = bits - (np.abs(back) > np.abs(values)).astype(np.uint16)
        bits = bits | ((back != values) & ~np.isnan(values)).astype(np.uint16)
    rounded = ((bits + (np.uint16(0x7F) + ((bits >> np.uint16(8)) & np.uint16(1)))) >> np.uint16(8)).astype(np.uint8)
    nan = np.isnan(values)
    if nan.any():
        signs = (np.signbit(values).astype(np.uint8)) << np.uint8(7)
        rounded = np.where(nan, signs | np.uint8(_F8_QUIET), rounded)
    return rounded


def f32_from_f8(bits: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The binary32 value of each E5M2 code, exactly."""
    halves: NDArray[Any] = (bits.astype(np.uint16) << np.uint16(8)).view(np.float16)
    return halves.astype(np.float32)
