"""Coordinates of a Resize are the fractions that its formulas have, however large their denominators."""

from __future__ import annotations

import math
import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openinfer.importers.onnx_files import resize_axes
from openinfer.importers.onnx_files.resize_axes import (
    NEAREST,
    TRANSFORMATIONS,
    ResizedAxis,
    coordinates,
    is_extrapolated,
    nearest_places,
)

HALF = Fraction(1, 2)
ROUNDED = {
    "floor": math.floor,
    "ceil": math.ceil,
    "round_prefer_floor": lambda at: math.ceil(at - HALF),
    "round_prefer_ceil": lambda at: math.floor(at + HALF),
}

lengths = st.integers(1, 40) | st.integers(1, 2**26)
scales = st.floats(2**-100, 2**100, width=32).map(Fraction) | st.builds(Fraction, lengths, lengths)
bounds = st.floats(-1000, 1000, width=32).map(Fraction)


@st.composite
def axes(draw: st.DrawFn) -> ResizedAxis:
    width = draw(st.integers(1, 30)) + draw(st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(7, 8)]))
    return ResizedAxis(0, draw(lengths), width, draw(scales), (draw(bounds), draw(bounds)))


@pytest.mark.parametrize("fits", [resize_axes.FITS, 0])
@settings(deadline=None, max_examples=150)
@given(axis=axes(), transformation=st.sampled_from(sorted(TRANSFORMATIONS)))
def test_coordinates_are_exact(fits: int, axis: ResizedAxis, transformation: str) -> None:
    start, step = TRANSFORMATIONS[transformation](axis)
    exact = [start + place * step for place in range(axis.after)]
    last = axis.before - 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resize_axes, "FITS", fits)
        at = coordinates(axis, transformation)

    assert [Fraction(int(number), at.denominator) for number in at.numerators] == exact
    assert at.floats().tolist() == list(map(float, exact))
    assert at.parts().tolist() == [float(coordinate - math.floor(coordinate)) for coordinate in exact]
    assert at.is_outside(axis.before).tolist() == [not 0 <= coordinate <= last for coordinate in exact]
    for mode, rounded in ROUNDED.items():
        places = [min(max(rounded(coordinate), 0), last) for coordinate in exact]
        assert nearest_places(axis, at, mode).tolist() == places, mode


def test_every_mode_is_compared() -> None:
    assert NEAREST.keys() - {""} == ROUNDED.keys()


def test_the_largest_numerators_are_integers_of_python() -> None:
    narrow, wide = (ResizedAxis(0, 5, Fraction(7), Fraction(float(np.float32(scale)))) for scale in (1.4, 1.4e-25))

    assert coordinates(narrow, "half_pixel").numerators.dtype == np.int64
    assert coordinates(wide, "half_pixel").numerators.dtype == object


@pytest.mark.parametrize("scale", [Fraction(100), Fraction(float(np.float32(100.1)))])
def test_a_million_places_take_a_moment(scale: Fraction) -> None:
    axis, begun = ResizedAxis(0, 10_000, Fraction(1_000_000), scale), time.process_time()

    at = coordinates(axis, "half_pixel")
    for mode in NEAREST:
        nearest_places(axis, at, mode)
    is_extrapolated(axis, at, "tf_crop_and_resize")

    # Fractions take 20 times as long.
    assert time.process_time() - begun < 1
