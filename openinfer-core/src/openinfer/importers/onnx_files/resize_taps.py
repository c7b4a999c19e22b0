"""Interpolation along an axis of a Resize: for each place of the result, places of the original and their weights.

Coordinates are exact; weights are polynomials of their fractional parts, in f64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.resize_axes import Coordinates, ResizedAxis
    from openinfer.importers.onnx_files.source import Array

LARGEST_COEFFICIENT = 1e6
"""Of the cubic kernel: weights that are larger lose their sum, which is 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A kernel of interpolation.

    Attributes:
        is_cubic: whether it is the cubic one; else the linear one.
        cubic_coefficient: the ``a`` of Keys' cubic kernel (R. Keys, 1981, Cubic convolution interpolation for digital
            image processing).
        antialias: whether it is stretched over the places that one of the result stands for, if there are fewer.
        exclude_outside: whether places outside of the original have no weight; else they are those at its ends.
    """

    is_cubic: bool
    cubic_coefficient: float
    antialias: bool
    exclude_outside: bool

    @property
    def radius(self) -> int:
        return 2 if self.is_cubic else 1

    def weights(self, distances: Array) -> Array:
        """Return the weights of places at distances from a coordinate."""
        x, a = np.abs(distances), self.cubic_coefficient
        if not self.is_cubic:
            return np.maximum(1 - x, 0)
        near, far = 1 - x * x * ((a + 3) - (a + 2) * x), a * (x - 1) * (x - 2) ** 2
        return np.where(x < 1, near, np.where(x < 2, far, 0.0))


def taps(axis: ResizedAxis, at: Coordinates, kernel: Filter) -> tuple[Array, Array]:
    """Return the places that each place of the result is a sum of, and their weights, which add up to 1.

    Returns:
        Arrays [taps, after] of i64 and f64. A place of the result that has fewer taps than another has some of
        weight 0.
    """
    if not axis.after:
        return np.zeros((1, 0), np.int64), np.zeros((1, 0), np.float64)
    stretch = min(float(axis.scale), 1.0) if kernel.antialias else 1.0
    reach = math.ceil(kernel.radius / stretch)
    # Further outside nothing changes, and numbers fit.
    low, parts = np.clip(at.floor(), -reach - 1, axis.before + reach).astype(np.int64), at.parts()
    offsets = np.arange(1 - reach, reach + 1)
    places = low + offsets[:, None]
    weights = kernel.weights((offsets[:, None] - parts) * stretch)
    inside = np.clip(places, 0, axis.before - 1)
    if kernel.exclude_outside:
        weights = np.where(places == inside, weights, 0.0)
    return _merged(inside, weights)


def _merged(places: Array, weights: Array) -> tuple[Array, Array]:
    """Join the taps of one place, leave out those of no weight where no column needs them, and normalise."""
    columns: list[dict[int, float]] = []
    for column in range(places.shape[1]):
        sums: dict[int, float] = {}
        for place, weight in zip(places[:, column].tolist(), weights[:, column].tolist(), strict=True):
            sums[place] = sums.get(place, 0.0) + weight
        # A coordinate far outside may exclude every place: the nearest one counts.
        columns.append({place: weight for place, weight in sums.items() if weight} or {next(iter(sums)): 1.0})
    count = max(map(len, columns), default=1)
    merged, shares = np.zeros((count, len(columns)), np.int64), np.zeros((count, len(columns)))
    for number, column in enumerate(columns):
        total = sum(column.values())
        # Repeating a place that counts anyway keeps an infinity elsewhere out of the sum.
        merged[:, number] = next(iter(column))
        merged[: len(column), number] = list(column)
        shares[: len(column), number] = [weight / total for weight in column.values()]
    return merged, shares
