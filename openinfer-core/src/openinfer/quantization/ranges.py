"""Ranges of values that are seen, and the scales that follow from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Array = npt.NDArray[Any]

BINS = 4096


@dataclass(frozen=True, slots=True)
class Clipping:
    """How the range of an activation is chosen.

    Attributes:
        percentile: percent of the magnitudes that lie in the range; 100 takes the largest one (min-max).
    """

    percentile: float = 100.0

    def __post_init__(self) -> None:
        if not 50.0 <= self.percentile <= 100.0:
            raise ValueError(f"expected a percentile from 50 to 100, found {self.percentile}")


@dataclass(slots=True, eq=False)
class SeenRange:
    """A histogram of magnitudes, whose bins double in width when a larger value comes.

    Attributes:
        limit: upper end of the last bin; 0 until a value other than zero was seen.
        is_negative: whether a value below zero was seen.
    """

    limit: float = 0.0
    largest: float = 0.0
    is_negative: bool = False
    counts: Array = field(default_factory=lambda: np.zeros(BINS, np.int64))

    def add(self, values: Array) -> None:
        """Take in finite values; infinities and NaN are left out."""
        finite = values[np.isfinite(values)].astype(np.float64)
        if not finite.size:
            return
        self.is_negative = self.is_negative or bool(finite.min() < 0)
        magnitudes = np.abs(finite)
        largest = float(magnitudes.max())
        self.largest = max(self.largest, largest)
        if largest > 0 and self.limit == 0:
            self.limit = largest
        while self.limit < largest:
            self.counts = np.concatenate([self.counts.reshape(-1, 2).sum(axis=1), np.zeros(BINS // 2, np.int64)])
            self.limit *= 2
        width = self.limit / BINS if self.limit else 1.0
        self.counts += np.bincount(np.minimum(magnitudes / width, BINS - 1).astype(np.int64), minlength=BINS)

    def bound(self, clipping: Clipping) -> float:
        """Return the magnitude that the range ends with."""
        if clipping.percentile == 100.0 or not self.limit:
            return self.largest
        within = np.cumsum(self.counts) >= self.counts.sum() * clipping.percentile / 100
        return min(self.largest, float(np.argmax(within) + 1) * self.limit / BINS)

    def clipped_share(self, clipping: Clipping) -> float:
        """Return about which share of the values lies outside of the range."""
        total, bound = int(self.counts.sum()), self.bound(clipping)
        if not total or bound >= self.largest:
            return 0.0
        return float(self.counts[round(bound / self.limit * BINS) :].sum() / total)


@dataclass(frozen=True, slots=True)
class Codes:
    """Integers that stand for reals.

    Attributes:
        dtype: name of their type.
        zero_point: the code of zero; where it is the least code, nothing is below zero.
        most: the largest code.
    """

    dtype: str
    zero_point: int
    most: int

    def scale_of(self, bound: float) -> np.float32:
        """Return the real that one step stands for, where the largest code is ``bound``; 1 where all are zero."""
        scale = np.float32(bound / (self.most - self.zero_point))
        return scale if scale > 0 else np.float32(1)


SYMMETRIC = Codes("i8", 0, 127)
UNSIGNED = Codes("u8", 0, 255)
SHIFTED = Codes("i8", -128, 127)
"""As many codes as `UNSIGNED`, in the type whose products SMLAD and Helium add up."""
