"""Choosing scales and zero points for an array, and what the choice loses.

One scale serves a whole tensor or one index of an axis. Groups of other sizes are expressed by reshaping to
`[groups, size]` and quantising along axis 0; the container has no other form for them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .arrays import Array, decode, plain_numbers, widened
from .contents import TensorSpec
from .encoding import as_array, encode
from .errors import Finding, OinfError
from .quant import QuantParams, QuantScale, QuantZeroPoint, Scheme, fitted, real_values
from .sizes import size_text
from .tensor import StoredTensor
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
        return real_values(self.values, self.quant)

    def __repr__(self) -> str:
        nbytes = element_type(self.dtype).stored_nbytes(self.values.size)
        return f"<QuantizedArray: {self.dtype}{list(self.values.shape)}, {size_text(nbytes)}, {self.quant.scheme}>"


@dataclass(frozen=True)
class QuantizationError:
    """Largest and mean absolute error, and the ratio of signal to error power in decibels (inf without error)."""

    largest: float
    mean: float
    snr_db: float

    def to_json(self) -> dict[str, object]:
        """Plain data for `json.dumps`; infinities are strings."""
        snr_db = self.snr_db if math.isfinite(self.snr_db) else str(self.snr_db)
        return {"largest": self.largest, "mean": self.mean, "snr_db": snr_db}


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
    kind = checked_type(dtype, scheme)
    real = bounded(widened(as_array(array)), checked_clip(clip))
    plain_axis = _plain_axis(axis, real.ndim)
    quant = parameters(*_ranges(real, plain_axis), kind, scheme, plain_axis)

    def spread(values: Array) -> Array:
        around = [-1 if each == plain_axis else 1 for each in range(real.ndim)]
        return values[0] if plain_axis is None else values.reshape(around)

    return QuantizedArray(stored_numbers(real, quant, kind, spread), kind.name, quant)


def quantize(
    array: object, dtype: str = "i8", scheme: Scheme = "symmetric", axis: int | None = None, clip: float | None = None
) -> TensorSpec:
    """A quantised tensor to write, from real values; parameters and errors are those of `quantize_array`."""
    quantized = quantize_array(array, dtype, scheme=scheme, axis=axis, clip=clip)
    return TensorSpec(quantized.values, dtype=quantized.dtype, quant=quantized.quant)


def dequantize(tensor: StoredTensor | TensorSpec | QuantizedArray, dtype: str = "f32") -> Array:
    """Real values of a quantised tensor, of its shape: scale * (stored - zero point) in the float type `dtype`.

    Takes a tensor of an open file, what `quantize` makes, and what `quantize_array` makes; without quantisation the
    values are the plain ones. Raises `OinfError` (E_DTYPE, E_QUANT) and as `StoredTensor.dequantize`.
    """
    if not isinstance(tensor, TensorSpec | QuantizedArray):
        return tensor.dequantize(dtype)
    target = element_type(dtype)
    if target.kind != "float":
        raise _rejected("E_DTYPE", f"real values need a float type, not {target.name}")
    if isinstance(tensor, QuantizedArray):
        values: Array = tensor.real_values()
    else:
        array, kind = tensor.resolved()
        # By way of the stored bytes: values are what they are when the tensor has been written.
        values = plain_numbers(encode(array, kind), kind)[: array.size].reshape(array.shape)
        if tensor.quant is not None:
            values = real_values(values, fitted(tensor.quant, kind, values.shape, any_scale=True))
    return decode(memoryview(encode(values, target).data), target, values.shape, values.size)


def checked_type(dtype: str, scheme: Scheme) -> ValueType:
    """The type of that name, if numbers can be quantised to it with that scheme. Raises `OinfError`."""
    kind = element_type(dtype)
    if not kind.is_integer or kind.bits > 32 or kind.name == "i1":
        raise _rejected("E_DTYPE", f"{kind.name} is not a type to quantise to; use i2 to i32 or u1 to u32")
    if scheme not in ("symmetric", "asymmetric"):
        raise _rejected("E_QUANT", f"unknown scheme {scheme!r}; use `symmetric` or `asymmetric`")
    if scheme == "symmetric" and kind.kind == "uint":
        raise _rejected("E_QUANT", f"a symmetric scheme needs a signed type, not {kind.name}")
    return kind


def checked_clip(clip: float | None) -> float | None:
    """A bound on magnitudes, checked. Raises `OinfError` (E_QUANT)."""
    if clip is not None and not (math.isfinite(clip) and clip > 0):
        raise _rejected("E_QUANT", f"clip={clip} is not a finite number greater than zero")
    return clip


def bounded(real: Wide, clip: float | None) -> Wide:
    """The numbers, with magnitudes of at most `clip`. Raises `OinfError` (E_VALUE) for NaN and infinities."""
    if not np.isfinite(real).all():
        raise _rejected("E_VALUE", "NaN and infinities cannot be quantised")
    return real if clip is None else np.clip(real, -clip, clip)


def _plain_axis(axis: int | None, ndim: int) -> int | None:
    if axis is None:
        return None
    if not -ndim <= axis < ndim:
        raise _rejected("E_QUANT", f"axis {axis} of an array with {ndim} dimensions")
    return axis % ndim


def _ranges(real: Wide, axis: int | None) -> tuple[Wide, Wide]:
    """Least and greatest value of each channel, both widened to hold 0."""
    if axis is None:
        return np.atleast_1d(real.min(initial=0.0)), np.atleast_1d(real.max(initial=0.0))
    others = tuple(each for each in range(real.ndim) if each != axis)
    return real.min(axis=others, initial=0.0), real.max(axis=others, initial=0.0)


def _scales(extent: Wide, steps: int) -> NDArray[np.float32]:
    """Extents divided by steps, in the float32 that is stored; 1 where that is zero, an error where it overflows."""
    with np.errstate(over="ignore", under="ignore"):
        scales = (extent / steps).astype(np.float32)
    if not np.isfinite(scales).all():
        raise _rejected("E_QUANT_VALUE", "a scale does not fit float32; clip the values first")
    return np.where(scales > 0, scales, np.float32(1)).astype(np.float32)


def parameters(low: Wide, high: Wide, kind: ValueType, scheme: Scheme, axis: int | None) -> QuantParams:
    """Scales and zero points for channels whose least and greatest values, both widened to hold 0, are given."""
    if scheme == "symmetric":
        return QuantParams(scheme, QuantScale(axis, _scales(np.maximum(-low, high), kind.high)))
    # Halves, so that the extent of extreme float64 values stays finite.
    scales = _scales(2 * (high / 2 - low / 2), kind.high - kind.low)
    zeros = kind.low - np.rint(low / scales.astype(np.float64))
    zeros = np.clip(zeros, max(kind.low, -(1 << 31)), min(kind.high, (1 << 31) - 1))
    return QuantParams(scheme, QuantScale(axis, scales), QuantZeroPoint(axis, zeros.astype(np.int32)))


def stored_numbers(
    real: Wide, quant: QuantParams, kind: ValueType, spread: Callable[[Array], Array]
) -> NDArray[np.int64]:
    """The quantised integers of real values; `spread` broadcasts values of channels along the axes of `real`."""
    stored = np.rint(real / spread(quant.scale.values.astype(np.float64)))
    low = kind.low
    if quant.scheme == "symmetric":
        low = -kind.high
    elif quant.zero_point is not None:
        stored += spread(quant.zero_point.values.astype(np.float64))
    return np.clip(stored, low, kind.high).astype(np.int64)


@dataclass
class ErrorSums:
    """What of two sets of numbers their distance is computed from, block by block."""

    count: int = 0
    largest: float = 0.0
    absolute: float = 0.0
    signal: float = 0.0
    noise: float = 0.0

    def add(self, real: Wide, approximate: Array) -> None:
        if not real.size:
            return
        apart = np.abs(approximate.astype(np.float64) - real)
        self.count += real.size
        self.largest = max(self.largest, float(apart.max()))
        self.absolute += float(apart.sum())
        self.signal += float(np.square(real).sum())
        self.noise += float(np.square(apart).sum())

    def error(self) -> QuantizationError:
        mean = self.absolute / self.count if self.count else 0.0
        return QuantizationError(self.largest, mean, _decibels(self.signal, self.noise))


def quantization_error(array: object, quantized: QuantizedArray) -> QuantizationError:
    """How far the real values of a quantised array are from the original ones."""
    sums = ErrorSums()
    sums.add(widened(as_array(array)), quantized.real_values())
    return sums.error()


def _decibels(signal: float, noise: float) -> float:
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf
