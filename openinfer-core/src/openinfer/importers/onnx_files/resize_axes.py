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
    from collections.abc import Callable, Iterable, Sequence

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


def coordinates(axis: ResizedAxis, transformation: str) -> list[Fraction]:
    """Return where each place of the result lies in the original, in places; it may lie outside."""
    if not axis.after:
        return []
    start, step = TRANSFORMATIONS[transformation](axis)
    return [start + place * step for place in range(axis.after)]


NEAREST: dict[str, Callable[[Fraction, Fraction], int]] = {
    "floor": lambda coordinate, _: math.floor(coordinate),
    "ceil": lambda coordinate, _: math.ceil(coordinate),
    "round_prefer_floor": lambda coordinate, _: math.ceil(coordinate - HALF),
    "round_prefer_ceil": lambda coordinate, _: math.floor(coordinate + HALF),
    # ONNX does not state it before opset 11; this is what ONNX Runtime does.
    "": lambda coordinate, scale: math.ceil(coordinate) if scale < 1 else math.floor(coordinate),
}
"""The place nearest to a coordinate at a scale, by the attribute ``nearest_mode``; empty where an opset has none."""


def nearest_places(axis: ResizedAxis, at: Sequence[Fraction], mode: str) -> Array:
    """Return the place of the original that each coordinate is nearest to, which is one that exists."""
    places = [min(max(NEAREST[mode](coordinate, axis.scale), 0), axis.before - 1) for coordinate in at]
    return np.array(places, np.int64)


def is_outside(axis: ResizedAxis, at: Iterable[Fraction | float], transformation: str) -> Array:
    """Return which coordinates have the extrapolated value: those of a region that are before or after the original."""
    is_cropped = transformation == "tf_crop_and_resize"
    return np.array([is_cropped and not 0 <= coordinate <= axis.before - 1 for coordinate in at], bool)
