"""Statistics of a tensor's finite values, computed block by block in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .arrays import Array, widened

MEDIAN_LIMIT = 1 << 24
_BINS = 10
_SINGLE_VALUES = 20

Blocks = Callable[[], Iterator[Array]]


@dataclass(frozen=True)
class Bin:
    """How many values lie between two edges, both included where nothing lies between."""

    low: float
    high: float
    count: int


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """Statistics of the finite values; `median` is None if it was left out; all are NaN without finite values."""

    minimum: float
    maximum: float
    mean: float
    median: float | None
    std: float
    nan: int
    inf: int
    histogram: tuple[Bin, ...]


@dataclass
class _Moments:
    count: int = 0
    nan: int = 0
    inf: int = 0
    low: float = math.inf
    high: float = -math.inf
    mean: float = 0.0
    squares: float = 0.0

    def add(self, block: Array) -> None:
        """Join the moments of a block: Chan, Golub and LeVeque, "Updating formulae", 1979."""
        values = widened(block)
        self.nan += int(np.isnan(values).sum())
        self.inf += int(np.isinf(values).sum())
        values = values[np.isfinite(values)]
        if not values.size:
            return
        self.low, self.high = min(self.low, float(values.min())), max(self.high, float(values.max()))
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(values.mean())
            squares = float(np.square(values - mean).sum())
        total = self.count + values.size
        shift = mean - self.mean
        self.squares += squares + shift * shift * (self.count * (values.size / total))
        self.mean += shift * (values.size / total)
        self.count = total


def statistics_of(blocks: Blocks, *, whole_numbers: bool, bools: bool = False, exact: bool = False) -> Statistics:
    """Statistics of all values that `blocks()` yields; it is called once for each pass.

    `std` is that of the population. The median of more than 16,777,216 values is computed only if `exact`.
    """
    moments = _Moments()
    for block in blocks():
        moments.add(block)
    if not moments.count:
        unknown = math.nan
        return Statistics(
            minimum=unknown,
            maximum=unknown,
            mean=unknown,
            median=unknown,
            std=unknown,
            nan=moments.nan,
            inf=moments.inf,
            histogram=(),
        )
    return Statistics(
        minimum=moments.low,
        maximum=moments.high,
        mean=moments.mean,
        median=_median(blocks) if exact or moments.count <= MEDIAN_LIMIT else None,
        std=math.sqrt(moments.squares / moments.count),
        nan=moments.nan,
        inf=moments.inf,
        histogram=_histogram(blocks, moments.low, moments.high, whole_numbers=whole_numbers, bools=bools),
    )


def _finite(block: Array) -> NDArray[np.float64]:
    values = widened(block)
    return values[np.isfinite(values)]


def _median(blocks: Blocks) -> float:
    values = np.concatenate([_finite(block) for block in blocks()])
    with np.errstate(over="ignore"):
        return float(np.median(values))


def _histogram(blocks: Blocks, low: float, high: float, *, whole_numbers: bool, bools: bool) -> tuple[Bin, ...]:
    if bools:
        ones = sum(int(np.count_nonzero(block)) for block in blocks())
        total = sum(block.size for block in blocks())
        return Bin(0, 0, total - ones), Bin(1, 1, ones)
    if low == high:
        return (Bin(low, high, sum(_finite(block).size for block in blocks())),)
    if whole_numbers and high - low <= _SINGLE_VALUES:
        return _single_values(blocks)
    # Halving keeps the width of the range finite; the edges are doubled again.
    scale = 1.0 if math.isfinite(high - low) else 0.5
    edges = np.linspace(low * scale, high * scale, _BINS + 1)
    counts = np.zeros(_BINS, np.int64)
    for block in blocks():
        places = np.searchsorted(edges[1:-1], _finite(block) * scale, side="right")
        counts += np.bincount(places, minlength=_BINS)
    edges = edges / scale
    return tuple(
        Bin(float(edges[each]), float(edges[each + 1]), int(counts[each])) for each in range(_BINS) if counts[each]
    )


def _single_values(blocks: Blocks) -> tuple[Bin, ...]:
    counts: dict[float, int] = {}
    for block in blocks():
        values, numbers = np.unique(block, return_counts=True)
        for value, number in zip(values.tolist(), numbers.tolist(), strict=True):
            counts[value] = counts.get(value, 0) + number
    return tuple(Bin(value, value, counts[value]) for value in sorted(counts))
