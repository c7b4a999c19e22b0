"""8-bit floats of other formats that a container has no type for, as f16, which holds them exactly."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray


@cache
def f16_of_e4m3fn() -> NDArray[np.uint16]:
    """f16 bits of every E4M3FN code: bias 7, no infinities, 0x7F and 0xFF are NaN (OCP 8-bit floating point, 2023)."""
    codes = np.arange(256)
    exponents, fractions = codes >> 3 & 15, codes & 7
    values = np.where(
        exponents == 0, np.ldexp(fractions / 8.0, -6), np.ldexp(1 + fractions / 8.0, np.maximum(exponents, 1) - 7)
    )
    values[codes & 0x7F == 0x7F] = np.nan
    halves = values.astype(np.float16).view(np.uint16) | (codes >> 7 << 15).astype(np.uint16)
    halves.flags.writeable = False
    return halves
