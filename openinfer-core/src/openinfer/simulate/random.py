"""Random tensors that are the same for the same seed (``specification: runtime.values.2``)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.array_types import storage_dtype
from openinfer.boundary import public_methods
from openinfer.dtypes import DType, Kind, dtype_of
from openinfer.errors import DTypeError, ExecutionError, ShapeError
from openinfer.scalars import decode_bits, encode_bits, round_to

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt


@public_methods
class Random:
    """Tensors with uniformly distributed elements."""

    @staticmethod
    def generate(
        dtype: DType | str,
        shape: Sequence[int],
        range: tuple[float, float] | None = None,  # noqa: A002
        seed: int | Sequence[int] = 0,
    ) -> npt.NDArray[Any]:
        """Return a tensor with elements uniform over a closed range.

        Args:
            dtype: element type; packed types come unpacked, one element an item.
            shape: extents.
            range: lowest and highest value; by default -1 to 1 for floats, the whole range of the type for others.
            seed: one or several integers; the same seed gives the same tensor, on every machine.

        Raises:
            DTypeError: the type is unknown; the range has no value of the type or goes beyond what the type holds.
            ShapeError: an extent is negative.
            ExecutionError: a seed is negative.
        """
        kind = dtype_of(dtype)
        low, high = range if range is not None else _default_range(kind)
        if not (low <= high and math.isfinite(low) and math.isfinite(high)):
            raise DTypeError(f"expected a finite range from low to high, found {low} to {high}")
        extents = tuple(shape)
        if any(extent < 0 for extent in extents):
            raise ShapeError(f"a tensor cannot have the shape {list(extents)}: an extent is negative")
        generator = _generator(seed)
        if kind.is_float:
            return _floats(kind, float(low), float(high), extents, generator)
        return _integers(kind, math.ceil(low), math.floor(high), extents, generator)


def _default_range(dtype: DType) -> tuple[float, float]:
    return (-1.0, 1.0) if dtype.is_float else (dtype.minimum or 0, dtype.maximum or 0)


def _generator(seed: int | Sequence[int]) -> np.random.Generator:
    seeds = (seed,) if isinstance(seed, int) else tuple(seed)
    if any(part < 0 for part in seeds):
        raise ExecutionError(f"a seed is 0 or greater, found {seed}", code="seed")
    return np.random.Generator(np.random.PCG64(seed))


def _floats(
    dtype: DType, low: float, high: float, shape: tuple[int, ...], generator: np.random.Generator
) -> npt.NDArray[Any]:
    if math.isinf(round_to(dtype, low)) or math.isinf(round_to(dtype, high)):
        raise DTypeError(f"{low} to {high} goes beyond the finite values of {dtype}")
    first, last = _least(dtype, low), -_least(dtype, -high)
    if first > last:
        raise DTypeError(f"there is no {dtype} from {low} to {high}")
    drawn = generator.random(shape)
    width = high - low
    values = low + width * drawn if math.isfinite(width) else 2 * (low / 2 + (high / 2 - low / 2) * drawn)
    # Rounding to the type may lead past an end of the range.
    return np.asarray(np.clip(values, first, last)).astype(storage_dtype(dtype))


def _least(dtype: DType, bound: float) -> float:
    """Return the least value of a float type that is not below ``bound``; infinite if there is none."""
    nearest = round_to(dtype, bound)
    if nearest >= bound:
        return nearest
    if nearest == 0:
        return float(decode_bits(dtype, 1))
    code = encode_bits(dtype, nearest)
    return float(decode_bits(dtype, code + 1 if nearest > 0 else code - 1))


def _integers(
    dtype: DType, low: int, high: int, shape: tuple[int, ...], generator: np.random.Generator
) -> npt.NDArray[Any]:
    if dtype.name == "t1":
        low, high = low or 1, high or -1
    if low > high:
        raise DTypeError(f"there is no {dtype} in the range")
    if low < (dtype.minimum or 0) or high > (dtype.maximum or 0):
        raise DTypeError(f"{low} to {high} lies outside {dtype} ({dtype.minimum}..{dtype.maximum})")
    if dtype.name == "t1":
        return np.where(generator.random(shape) < 0.5, np.int8(low), np.int8(high)).astype(np.int8)
    wide = np.dtype(np.uint64 if dtype.kind is Kind.UNSIGNED else np.int64)
    return np.asarray(generator.integers(low, high, shape, wide, endpoint=True)).astype(storage_dtype(dtype))
