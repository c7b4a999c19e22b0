"""How the stored whole numbers of a tensor stand for real ones: real = scale * (stored - zero point)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray

from .arrays import Array, widened
from .errors import Finding, OinfError
from .valuetypes import ValueType

Scheme = Literal["symmetric", "asymmetric"]


def _rejected(message: str, code: str = "E_QUANT") -> OinfError:
    return OinfError(Finding(code=code, message=message))


def _frozen_vector(values: object, dtype: type, what: str) -> Array:
    """Numbers as a read-only vector of `dtype`, float32 or int32; whole ones are checked to fit."""
    if isinstance(values, Iterable) and not isinstance(values, np.ndarray):
        values = list(cast("Iterable[object]", values))
    array: Array = np.atleast_1d(np.asarray(values))
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iuf"):
        raise _rejected(f"the {what} values are numbers in one dimension, not {array.dtype} of {array.shape}")
    if dtype is np.int32 and array.size:
        if not (np.isfinite(array) & (array == np.floor(array))).all():
            raise _rejected(f"the {what} values are whole numbers")
        if array.min() < -(1 << 31) or array.max() >= 1 << 31:
            raise _rejected(f"the {what} values do not fit 32 bits", "E_QUANT_VALUE")
    with np.errstate(over="ignore"):
        frozen = array.astype(dtype)
    frozen.flags.writeable = False
    return frozen


@dataclass(frozen=True, eq=False)
class QuantScale:
    """Scales: one for the tensor (`axis` None) or one per index of `axis`; `values` is float32."""

    axis: int | None
    values: NDArray[np.float32]

    @classmethod
    def per_tensor(cls, value: float) -> QuantScale:
        return cls(None, _frozen_vector(value, np.float32, "scale"))

    @classmethod
    def per_channel(cls, axis: int, values: Iterable[float]) -> QuantScale:
        """One scale per index of `axis`, which may be negative to count from the last dimension."""
        return cls(axis, _frozen_vector(values, np.float32, "scale"))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, QuantScale)
            and self.axis == other.axis
            and self.values.tobytes() == other.values.tobytes()
        )

    def __hash__(self) -> int:
        return hash((self.axis, self.values.tobytes()))


@dataclass(frozen=True, eq=False)
class QuantZeroPoint:
    """Zero points, in stored units: one for the tensor (`axis` None) or one per index; `values` is int32."""

    axis: int | None
    values: NDArray[np.int32]

    @classmethod
    def per_tensor(cls, value: int) -> QuantZeroPoint:
        return cls(None, _frozen_vector(value, np.int32, "zero point"))

    @classmethod
    def per_channel(cls, axis: int, values: Iterable[int]) -> QuantZeroPoint:
        """One zero point per index of `axis`, which has to be the axis of the scales."""
        return cls(axis, _frozen_vector(values, np.int32, "zero point"))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, QuantZeroPoint)
            and self.axis == other.axis
            and self.values.tobytes() == other.values.tobytes()
        )

    def __hash__(self) -> int:
        return hash((self.axis, self.values.tobytes()))


@dataclass(frozen=True)
class QuantParams:
    """The quantisation of one tensor. Raises `OinfError` (E_QUANT) where the parts contradict each other."""

    scheme: Scheme
    scale: QuantScale
    zero_point: QuantZeroPoint | None = None

    def __post_init__(self) -> None:
        if self.scheme not in ("symmetric", "asymmetric"):
            raise _rejected(f"unknown scheme {self.scheme!r}; use `symmetric` or `asymmetric`")
        if self.scheme == "symmetric" and self.zero_point is not None:
            raise _rejected("a symmetric scheme has no zero point")
        if self.zero_point is not None and self.zero_point.axis != self.scale.axis:
            raise _rejected(
                f"zero point (axis {self.zero_point.axis}) and scale (axis {self.scale.axis}) differ in axis"
            )


def fitted(quant: QuantParams, value_type: ValueType, shape: tuple[int, ...], *, any_scale: bool) -> QuantParams:
    """`quant` with its axis made non-negative, when it may be written for a tensor of this type and shape.

    Raises `OinfError`: E_QUANT (type, axis, counts), E_QUANT_VALUE (scales, zero points).
    """
    if not value_type.is_integer:
        raise _rejected(f"only integer tensors are quantised, not {value_type.name}")
    axis = _plain_axis(quant.scale.axis, shape)
    for what, values in _vectors(quant):
        expected = 1 if axis is None else shape[axis]
        if values.size != expected:
            raise _rejected(f"{values.size} {what} values where shape {shape} and axis {axis} ask for {expected}")
    scales = quant.scale.values
    if not np.isfinite(scales).all() or not (any_scale or (scales > 0).all()):
        raise _rejected(
            "scales have to be finite and greater than zero (allow_any_scale lifts the latter)", "E_QUANT_VALUE"
        )
    zero_point = quant.zero_point
    if zero_point is not None:
        outside = (zero_point.values < value_type.low) | (zero_point.values > value_type.high)
        if outside.any():
            raise _rejected(f"a zero point lies outside {value_type.low}..{value_type.high}", "E_QUANT_VALUE")
        zero_point = QuantZeroPoint(axis, zero_point.values)
    return QuantParams(quant.scheme, QuantScale(axis, scales), zero_point)


def _vectors(quant: QuantParams) -> list[tuple[str, Array]]:
    vectors: list[tuple[str, Array]] = [("scale", quant.scale.values)]
    if quant.zero_point is not None:
        vectors.append(("zero point", quant.zero_point.values))
    return vectors


def _plain_axis(axis: int | None, shape: tuple[int, ...]) -> int | None:
    if axis is None:
        return None
    if not -len(shape) <= axis < len(shape):
        raise _rejected(f"axis {axis} of a tensor with {len(shape)} dimensions")
    return axis % len(shape)


def real_values(stored: Array, quant: QuantParams) -> NDArray[np.float32]:
    """Real values of a decoded tensor, as float32: scale * (stored - zero point), infinite where too large."""

    def spread(values: Array) -> Array:
        if quant.scale.axis is None:
            return values[0]
        return values.reshape([-1 if axis == quant.scale.axis else 1 for axis in range(stored.ndim)])

    return _real(stored, quant, spread)


def real_range(stored: Array, quant: QuantParams, shape: tuple[int, ...], first: int) -> NDArray[np.float32]:
    """As `real_values`, of elements in C order, flat, from `first` on, of a tensor of `shape`."""
    axis = quant.scale.axis
    if axis is None:
        return _real(stored, quant, lambda values: values[0])
    inner = math.prod(shape[axis + 1 :])
    channels = np.arange(first, first + stored.size) // inner % shape[axis]
    return _real(stored, quant, lambda values: values[channels])


def _real(stored: Array, quant: QuantParams, spread: Callable[[Array], Array]) -> NDArray[np.float32]:
    # Whole numbers up to 32 bits less a zero point are exact in float64; one rounding follows the product.
    centred = widened(stored)
    if quant.zero_point is not None:
        centred -= spread(quant.zero_point.values)
    with np.errstate(all="ignore"):
        return (centred * widened(spread(quant.scale.values))).astype(np.float32)
