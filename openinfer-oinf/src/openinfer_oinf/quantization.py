"""Choosing scales and zero points for an array, and what the choice loses.

One scale serves a whole tensor or one index of an axis. Groups of other sizes are expressed by reshaping to
`[groups, size]` and quantising along axis 0; the container has no other form for them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .arrays import Array, widened
from .contents import TensorSpec
from .encoding import as_array
from .errors import Finding, OinfError
from .quant import QuantParams, QuantScale, QuantZeroPoint, Scheme, dequantize
from .valuetypes import ValueType, element_type

Wide = NDArray[np.float64]


@dataclass(frozen=True)
class QuantizedArray:
    """Stored whole numbers (int64, in the range of `dtype`) with the parameters that give them meaning."""

    values: NDArray[np.int64]
    dtype: str
    quant: QuantParams

    def real_values(self) -> NDArray[np.float32]:
        """What the stored numbers stand for: scale * (stored - zero point)."""
        return dequantize(self.values, self.quant)


@dataclass(frozen=True)
class QuantizationError:
    """Largest and mean absolute error, and the ratio of signal to error power in decibels (inf without error)."""

    largest: float
    mean: float
    snr_db: float


def _rejected(code: str, message: str) -> OinfError:
    return OinfError(Finding(code=code, message=message))


def quantize_array(
    array: object,
    dtype: str = "i8",
    *,
    scheme: Scheme = "symmetric",
    axis: int | None = None,
    clip: float | None = None,
) -> QuantizedArray:
    """Quantise real values to an integer type of 2 to 32 bits (u1 too), per tensor or per index of `axis`.

    Symmetric: scale = max|x| / high, stored numbers -high..high, no zero point. Asymmetric: the range of x, widened to
    hold 0, maps to low..high; the zero point is rounded and clamped. `clip` bounds |x| beforehand. Rounding is half to
    even; where all is zero the scale is 1. Raises `OinfError`: E_DTYPE, E_VALUE (NaN, infinity), E_QUANT.
    """
    kind = _checked_type(dtype, scheme)
    real = widened(as_array(array))
    if not np.isfinite(real).all():
        raise _rejected("E_VALUE", "NaN and infinities cannot be quantised")
    if clip is not None:
        if not (math.isfinite(clip) and clip > 0):
            raise _rejected("E_QUANT", f"clip={clip} is not a finite number greater than zero")
        real = np.clip(real, -clip, clip)
    plain_axis = _plain_axis(axis, real.ndim)
    low, high = _ranges(real, plain_axis)
    if scheme == "symmetric":
        return _symmetric(real, kind, plain_axis, np.maximum(-low, high))
    return _asymmetric(real, kind, plain_axis, low, high)


def quantize(
    array: object, dtype: str = "i8", scheme: Scheme = "symmetric", axis: int | None = None, clip: float | None = None
) -> TensorSpec:
    """A quantised tensor to write, from real values; parameters and errors are those of `quantize_array`."""
    quantized = quantize_array(array, dtype, scheme=scheme, axis=axis, clip=clip)
    return TensorSpec(quantized.values, dtype=quantized.dtype, quant=quantized.quant)


def _checked_type(dtype: str, scheme: Scheme) -> ValueType:
    kind = element_type(dtype)
    if not kind.is_integer or kind.bits > 32 or kind.name == "i1":
        raise _rejected("E_DTYPE", f"{kind.name} is no type to quantise to; use i2 to i32 or u1 to u32")
    if scheme not in ("symmetric", "asymmetric"):
        raise _rejected("E_QUANT", f"unknown scheme {scheme!r}; use 'symmetric' or 'asymmetric'")
    if scheme == "symmetric" and kind.kind == "uint":
        raise _rejected("E_QUANT", f"a symmetric scheme needs a signed type, not {kind.name}")
    return kind


def _plain_axis(axis: int | None, ndim: int) -> int | None:
    if axis is None:
        return None
    if not -ndim <= axis < ndim:
        raise _rejected("E_QUANT", f"axis {axis} of an array with {ndim} dimensions")
    return axis % ndim


def _ranges(real: Wide, axis: int | None) -> tuple[Wide, Wide]:
    """Least and greatest value of each channel, both widened to hold 0."""
    rows = real.reshape(1, -1) if axis is None else np.moveaxis(real, axis, 0).reshape(real.shape[axis], -1)
    return rows.min(axis=1, initial=0.0), rows.max(axis=1, initial=0.0)


def _scales(extent: Wide, steps: int) -> NDArray[np.float32]:
    """Extents divided by steps, in the float32 that is stored; 1 where that is zero, an error where it overflows."""
    with np.errstate(over="ignore", under="ignore"):
        scales = (extent / steps).astype(np.float32)
    if not np.isfinite(scales).all():
        raise _rejected("E_QUANT_VALUE", "a scale does not fit float32; clip the values first")
    return np.where(scales > 0, scales, np.float32(1)).astype(np.float32)


def _spread(values: Array, axis: int | None, ndim: int) -> Array:
    return values[0] if axis is None else values.reshape([-1 if each == axis else 1 for each in range(ndim)])


def _symmetric(real: Wide, kind: ValueType, axis: int | None, extent: Wide) -> QuantizedArray:
    scales = _scales(extent, kind.high)
    stored = np.rint(real / _spread(scales, axis, real.ndim).astype(np.float64))
    stored = np.clip(stored, -kind.high, kind.high).astype(np.int64)
    return QuantizedArray(stored, kind.name, QuantParams("symmetric", QuantScale(axis, scales)))


def _asymmetric(real: Wide, kind: ValueType, axis: int | None, low: Wide, high: Wide) -> QuantizedArray:
    # Halves, so that the extent of extreme float64 values stays finite.
    scales = _scales(2 * (high / 2 - low / 2), kind.high - kind.low)
    wide = scales.astype(np.float64)
    zeros = np.clip(kind.low - np.rint(low / wide), max(kind.low, -(1 << 31)), min(kind.high, (1 << 31) - 1))
    zero_point = QuantZeroPoint(axis, zeros.astype(np.int32))
    stored = np.rint(real / _spread(wide, axis, real.ndim)) + _spread(zeros, axis, real.ndim)
    stored = np.clip(stored, kind.low, kind.high).astype(np.int64)
    return QuantizedArray(stored, kind.name, QuantParams("asymmetric", QuantScale(axis, scales), zero_point))


def quantization_error(array: object, quantized: QuantizedArray) -> QuantizationError:
    """How far the real values of a quantised array are from the original ones."""
    real = widened(as_array(array))
    apart = quantized.real_values().astype(np.float64) - real
    if not real.size:
        return QuantizationError(0.0, 0.0, math.inf)
    signal, noise = float(np.square(real).sum()), float(np.square(apart).sum())
    return QuantizationError(float(np.abs(apart).max()), float(np.abs(apart).mean()), _decibels(signal, noise))


def _decibels(signal: float, noise: float) -> float:
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf
