"""Random tensors that are the same for the same seed (runtime specification, section 16)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.dtypes import BY_NAME, DType, Kind
from openinfer.errors import DTypeError
from openinfer.model import storage_dtype

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt


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
            DTypeError: the type is unknown, the range is empty or lies outside the type.
        """
        kind = _kind(dtype)
        low, high = range if range is not None else _default_range(kind)
        if not low <= high:
            raise DTypeError(f"expected a range from low to high, found {low} to {high}")
        generator = np.random.Generator(np.random.PCG64(seed))
        if kind.is_float:
            values = low + (high - low) * generator.random(tuple(shape))
            return np.asarray(values).astype(storage_dtype(kind))
        return _integers(kind, int(low), int(high), tuple(shape), generator)


def _kind(dtype: DType | str) -> DType:
    if isinstance(dtype, DType):
        return dtype
    if dtype not in BY_NAME:
        raise DTypeError(f"unknown dtype {dtype!r}; known: {', '.join(BY_NAME)}", code="unknown-dtype")
    return BY_NAME[dtype]


def _default_range(dtype: DType) -> tuple[float, float]:
    return (-1.0, 1.0) if dtype.is_float else (dtype.minimum or 0, dtype.maximum or 0)


def _integers(
    dtype: DType, low: int, high: int, shape: tuple[int, ...], generator: np.random.Generator
) -> npt.NDArray[Any]:
    if low < (dtype.minimum or 0) or high > (dtype.maximum or 0):
        raise DTypeError(f"{low} to {high} lies outside {dtype} ({dtype.minimum}..{dtype.maximum})")
    if dtype.name == "t1":
        return np.where(generator.random(shape) < 0.5, np.int8(-1), np.int8(1)).astype(np.int8)
    wide = np.dtype(np.uint64 if dtype.kind is Kind.UNSIGNED else np.int64)
    return np.asarray(generator.integers(low, high, shape, wide, endpoint=True)).astype(storage_dtype(dtype))
