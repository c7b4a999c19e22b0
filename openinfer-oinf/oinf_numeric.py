"""Earlier module name: bf16 and f8 (E5M2), rounded to nearest even and widened exactly."""

from __future__ import annotations

# Makes the package importable from a checkout in which it is not installed.
import dataclass_to_oinf  # noqa: F401
import numpy as np
from numpy.typing import ArrayLike, NDArray

from openinfer_oinf.floats import bf16_from_f32, f8_from_f32
from openinfer_oinf.floats import f32_from_bf16 as bf16_to_f32
from openinfer_oinf.floats import f32_from_f8 as f8_to_f32

__all__ = ["bf16_to_f32", "f8_to_f32", "f8_to_f32_scalar", "float_to_bf16_bits", "float_to_f8_bits"]


def float_to_bf16_bits(values: ArrayLike) -> NDArray[np.uint16]:
    """Bits of the nearest bf16 of each value."""
    return bf16_from_f32(np.asarray(values, np.float32))


def float_to_f8_bits(values: ArrayLike) -> NDArray[np.uint8]:
    """Bits of the nearest E5M2 of each value."""
    return f8_from_f32(np.asarray(values, np.float32))


def f8_to_f32_scalar(code: int) -> float:
    """The value of one E5M2 code."""
    return float(f8_to_f32(np.array([code], np.uint8))[0])
