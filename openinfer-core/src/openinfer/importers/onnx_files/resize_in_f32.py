"""Coordinates of a Resize as ONNX Runtime computes them, in f32: where they choose other places than exact ones do.

The formulas and the order of their operations are those of ``upsamplebase.h`` in ONNX Runtime 1.32. Earlier releases
differ from exact places more often: there a half is one only if it is exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from openinfer.importers.onnx_files.resize_axes import Coordinates, ResizedAxis
    from openinfer.importers.onnx_files.source import Array

LARGEST_ERROR = 2.0**-14
"""Errors of coordinates in places that are worth a note; interpolated values are off by as much of their contrast."""

WIDTH_OF_HALVES = np.float32(1e-6)
"""Fractional parts this near to a half count as one when places are rounded."""


def coordinates_in_f32(axis: ResizedAxis, transformation: str) -> Array:
    """Return where each place of the result lies in the original, rounded after each operation."""
    one, half = np.float32(1), np.float32(0.5)
    place, scale = np.arange(axis.after, dtype=np.float32), np.float32(float(axis.scale))
    before, after = np.float32(axis.before), np.float32(axis.after)
    start, end = (np.float32(float(bound)) for bound in axis.region)
    if scale == one:
        return place
    if transformation == "asymmetric":
        return place / scale
    if transformation == "tf_half_pixel_for_nn":
        return (place + half) / scale
    if transformation == "align_corners":
        return place * (before - one) / (after - one) if axis.after > 1 else place
    if transformation == "tf_crop_and_resize":
        if axis.after == 1:
            return np.array([0.5 * float(start + end) * float(before - one)], np.float32)
        return start * (before - one) + (place * (end - start) * (before - one)) / (after - one)
    if transformation == "half_pixel_symmetric":
        offset = before / np.float32(2) * (one - after / (scale * before))
        return (float(offset) + (place.astype(np.float64) + 0.5) / float(scale) - 0.5).astype(np.float32)
    if transformation == "pytorch_half_pixel" and axis.after == 1:
        return place
    return (place + half) / scale - half


def nearest_in_f32(axis: ResizedAxis, at: Array, mode: str) -> Array:
    """Return the place of the original that each coordinate is nearest to."""
    if mode == "" or axis.scale == 1:
        places = np.ceil(at) if axis.scale < 1 else np.trunc(at)
    elif mode in ("floor", "ceil"):
        places = np.floor(at) if mode == "floor" else np.ceil(at)
    else:
        below = np.floor(at)
        part = at - below
        is_half = np.abs(part - np.float32(0.5)) <= WIDTH_OF_HALVES
        places = below + np.where(is_half, mode == "round_prefer_ceil", part > np.float32(0.5))
    return np.clip(places, 0, axis.before - 1).astype(np.int64)


def is_extrapolated_in_f32(axis: ResizedAxis, at: Array, transformation: str) -> Array:
    """Return which coordinates have the extrapolated value, those that are not numbers among them."""
    wide = at.astype(np.float64)
    return (transformation == "tf_crop_and_resize") & ~((wide >= 0) & (wide <= axis.before - 1))


def largest_error(at: Array, exact: Coordinates, before: int) -> float:
    """Return the largest distance of coordinates from exact ones, both moved to between the first and last place."""
    errors = np.abs(np.clip(at.astype(np.float64), 0, before - 1) - np.clip(exact.floats(), 0, before - 1))
    return float(errors.max(initial=0.0))
