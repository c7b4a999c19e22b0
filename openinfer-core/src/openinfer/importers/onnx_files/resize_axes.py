"""The axes of a Resize: lengths, and the coordinates in the original that places of the result have.

Formulas are those of ONNX's Resize: https://onnx.ai/onnx/operators/onnx__Resize.html. Every coordinate is a linear
function of the place, with coefficients that are fractions, so that nothing is rounded before a place is chosen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.importers.onnx_files.source import Array

HALF = Fraction(1, 2)


@dataclass(frozen=True, slots=True)
class ResizedAxis:
    """An axis that is resized.

    Attributes:
        axis: which one.
        before: its length in the original.
        width: its length in the result before it is rounded down.
        scale: by what it is resized: the f32 that the model has, or the quotient of the lengths.
        region: where the result begins and ends as shares of the original, for ``tf_crop_and_resize``.
    """

    axis: int
    before: int
    width: Fraction
    scale: Fraction
    region: tuple[Fraction, Fraction] = (Fraction(0), Fraction(1))

    @property
    def after(self) -> int:
        """Its length in the result."""
        return math.floor(self.width)

    @property
    def is_kept(self) -> bool:
        """Whether the result is the original."""
        return self.before == self.after and self.scale == 1 and self.region == (0, 1)


def _half_pixel(axis: ResizedAxis) -> tuple[Fraction, Fraction]:
    return HALF / axis.scale - HALF, 1 / axis.scale


def _half_pixel_symmetric(axis: ResizedAxis) -> tuple[Fraction, Fraction]:
    start, step = _half_pixel(axis)
    return start + Fraction(axis.before, 2) * (1 - Fraction(axis.after) / (axis.scale * axis.before)), step


def _pytorch_half_pixel(axis: ResizedAxis) -> tuple[Fraction, Fraction]:
    return _half_pixel(axis) if axis.after > 1 else (Fraction(0), Fraction(0))


def _tf_half_pixel(axis: ResizedAxis) -> tuple[Fraction, Fraction]:
    return HALF / axis.scale, 1 / axis.scale


def _asymmetric(axis: ResizedAxis) -> tuple[Fraction, Fraction]:
    return Fraction(0), 1 / axis.scale


def _align_corners(axis: ResizedAxis) -> tuple[Fraction, Fraction]:
    # ONNX's tests show that the length is not rounded down here.
    return Fraction(0), (axis.before - 1) / (axis.width - 1) if axis.after > 1 else Fraction(0)


def _crop(axis: ResizedAxis) -> tuple[Fraction, Fraction]:
    (start, end), last = axis.region, axis.before - 1
    if axis.after == 1:
        return (start + end) / 2 * last, Fraction(0)
    return start * last, (end - start) * last / (axis.after - 1)


TRANSFORMATIONS: dict[str, Callable[[ResizedAxis], tuple[Fraction, Fraction]]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _half_pixel_symmetric,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "tf_half_pixel_for_nn": _tf_half_pixel,
    "asymmetric": _asymmetric,
    "align_corners": _align_corners,
    "tf_crop_and_resize": _crop,
}
"""The coordinate of place 0, and the distance of two places, by the attribute ``coordinate_transformation_mode``."""


FITS = 1 << 61
"""Numerators and denominators below this have doubles, and sums of these, of 64 bits."""

EXACT_IN_F64 = 1 << 53
"""Up to here every integer is exact in f64."""


@dataclass(frozen=True, slots=True, eq=False)
class Coordinates:
    """Where places of a result lie in the original, in places: exact quotients.

    Attributes:
        numerators: i64, or Python's integers where these are too large.
        denominator: of all, above 0.
    """

    numerators: Array
    denominator: int

    def floor(self) -> Array:
        """Return the whole places below or at the coordinates."""
        return self.numerators // self.denominator

    def ceil(self) -> Array:
        """Return the whole places above or at the coordinates."""
        return -(-self.numerators // self.denominator)

    def rounded(self, *, up: bool) -> Array:
        """Return the nearest places, those above or those below of halves."""
        # floor(c + 1/2), or ceil(c - 1/2)
        doubled, twice = self.numerators * 2, self.denominator * 2
        return (doubled + self.denominator) // twice if up else -((self.denominator - doubled) // twice)

    def parts(self) -> Array:
        """Return the distances from the places below, rounded once to f64."""
        return self._quotients(self.numerators % self.denominator)

    def floats(self) -> Array:
        """Return the coordinates, rounded once to f64."""
        return self._quotients(self.numerators)

    def is_outside(self, count: int) -> Array:
        """Return which coordinates lie before the first of ``count`` places or after the last."""
        return ((self.numerators < 0) | (self.numerators > (count - 1) * self.denominator)).astype(bool)

    def _quotients(self, numerators: Array) -> Array:
        largest = max(map(abs, (int(numerators.min(initial=0)), int(numerators.max(initial=0)))))
        if max(largest, self.denominator) <= EXACT_IN_F64:
            return numerators.astype(np.float64) / self.denominator
        return np.array([number / self.denominator for number in numerators.tolist()], np.float64)


def coordinates(axis: ResizedAxis, transformation: str) -> Coordinates:
    """Return where each place of the result lies in the original, in places; it may lie outside."""
    if not axis.after:
        return Coordinates(np.zeros(0, np.int64), 1)
    start, step = TRANSFORMATIONS[transformation](axis)
    denominator = math.lcm(start.denominator, step.denominator)
    first, slope = ((part * denominator).numerator for part in (start, step))
    last = first + (axis.after - 1) * slope
    if max(abs(first), abs(last), abs(slope), axis.before * denominator) < FITS:
        return Coordinates(first + np.arange(axis.after, dtype=np.int64) * slope, denominator)
    exact = np.array([first + place * slope for place in range(axis.after)], object)
    return Coordinates(exact, denominator)


NEAREST: dict[str, Callable[[Coordinates, Fraction], Array]] = {
    "floor": lambda at, _: at.floor(),
    "ceil": lambda at, _: at.ceil(),
    "round_prefer_floor": lambda at, _: at.rounded(up=False),
    "round_prefer_ceil": lambda at, _: at.rounded(up=True),
    # ONNX does not state it before opset 11; this is what ONNX Runtime does.
    "": lambda at, scale: at.ceil() if scale < 1 else at.floor(),
}
"""The places nearest to coordinates at a scale, by the attribute ``nearest_mode``; empty where an opset has none."""


def nearest_places(axis: ResizedAxis, at: Coordinates, mode: str) -> Array:
    """Return the place of the original that each coordinate is nearest to, which is one that exists."""
    return np.clip(NEAREST[mode](at, axis.scale), 0, axis.before - 1).astype(np.int64)


def is_extrapolated(axis: ResizedAxis, at: Coordinates, transformation: str) -> Array:
    """Return which coordinates have the extrapolated value: those of a region that are before or after the original."""
    outside = at.is_outside(axis.before)
    return outside if transformation == "tf_crop_and_resize" else np.zeros_like(outside)
