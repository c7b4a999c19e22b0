"""How far two values are from each other: absolutely, relatively, and in units in the last place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from openinfer.dtypes import DType
    from openinfer.simulate.values import Tensor
    from openinfer.tolerances import Tolerance

    Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How far a value is from the expected one.

    Attributes:
        beyond: elements that are not within the tolerance.
        elements: elements in all.
        absolute, relative: largest differences; infinite where one is NaN or infinite and the other is not the same.
            ``relative`` is to the larger magnitude of both.
        ulps: largest number of steps from one representable value to the next between both; for integers the
            difference; None where one is NaN and the other is not.
        where: place of the element that is furthest beyond the tolerance; of the largest difference if none is.
        expected, found: both elements there.
    """

    beyond: int
    elements: int
    absolute: float
    relative: float
    ulps: int | None
    where: tuple[int, ...]
    expected: float | int | bool | None
    found: float | int | bool | None

    @property
    def is_within(self) -> bool:
        return self.beyond == 0


def difference(expected: Tensor, found: Tensor, tolerance: Tolerance) -> Difference:
    """Return how far a value is from another of the same element type and shape. NaN equals NaN, 0 equals -0."""
    left, right = expected.array.reshape(-1), found.array.reshape(-1)
    if not left.size:
        none: dict[str, Any] = {"where": (), "expected": None, "found": None}
        return Difference(beyond=0, elements=0, absolute=0.0, relative=0.0, ulps=0, **none)
    with np.errstate(all="ignore"):
        absolute, magnitude, ulps = _floats(left, right) if expected.dtype.is_float else _integers(left, right)
        relative = np.where(absolute == 0, 0.0, np.where(np.isinf(absolute), np.inf, absolute / magnitude))
        beyond = (absolute > tolerance.absolute) & (relative > tolerance.relative)
        worst = int(np.argmax(np.where(beyond, absolute, -1.0) if beyond.any() else absolute))
    steps = [each for each in ulps if each is not None]
    return Difference(
        beyond=int(beyond.sum()),
        elements=left.size,
        absolute=float(absolute.max()),
        relative=float(relative.max()),
        ulps=None if len(steps) < len(ulps) else max(steps),
        where=tuple(int(place) for place in np.unravel_index(worst, expected.shape)),
        expected=_plain(left[worst], expected.dtype),
        found=_plain(right[worst], found.dtype),
    )


def hollow(value: Tensor) -> str | None:
    """Return why an equal value on two devices says little of how they compute: it is empty, zero, or not finite.

    Integers and single zeros say as much as other values do. Returns None where there is no such reason.
    """
    array, count = value.array.reshape(-1), value.array.size
    if not count:
        return "has no elements"
    if not value.dtype.is_float:
        return None
    nans = int(np.count_nonzero(np.isnan(array)))
    if nans:
        return f"is NaN in {'all' if nans == count else f'{nans} of'} {count} elements" if count > 1 else "is NaN"
    if np.isinf(array).all():
        return f"is infinite in all {count} elements" if count > 1 else "is infinite"
    return f"is zero in all {count} elements" if count > 1 and not array.any() else None


def _floats(left: Array, right: Array) -> tuple[Array, Array, list[int | None]]:
    """Return absolute differences, larger magnitudes, and the largest distance in units in the last place."""
    one, other = left.astype(np.float64), right.astype(np.float64)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    plain = np.isfinite(one) & np.isfinite(other)
    absolute = np.where(same, 0.0, np.where(plain, np.abs(one - other), np.inf))
    apart = ~same
    unordered = bool((np.isnan(one) ^ np.isnan(other)).any())
    largest = _steps(left[apart], right[apart]) if apart.any() and not unordered else 0
    return absolute, np.maximum(np.abs(one), np.abs(other)), [None if unordered else largest]


def _steps(left: Array, right: Array) -> int:
    """Return the largest number of steps between floats without NaN: sign and magnitude read as integers."""
    unsigned = np.dtype(f"u{left.dtype.itemsize}")
    high = 1 << (8 * left.dtype.itemsize - 1)
    codes = [np.ascontiguousarray(each).view(unsigned).astype(np.uint64) for each in (left, right)]
    one, other = (code & np.uint64(high - 1) for code in codes)
    negative = [code >= np.uint64(high) for code in codes]
    across = negative[0] != negative[1]
    return int(np.where(across, one + other, np.maximum(one, other) - np.minimum(one, other)).max())


def _integers(left: Array, right: Array) -> tuple[Array, Array, list[int | None]]:
    apart = left != right
    pairs = zip(left[apart].tolist(), right[apart].tolist(), strict=True)
    distances = [abs(int(one) - int(other)) for one, other in pairs]
    absolute = np.zeros(left.shape, np.float64)
    absolute[apart] = distances
    magnitude = np.maximum(np.abs(left.astype(np.float64)), np.abs(right.astype(np.float64)))
    return absolute, magnitude, [max(distances, default=0)]


def _plain(element: Any, dtype: DType) -> float | int | bool:
    plain = element.item()
    return float(plain) if dtype.is_float else plain
