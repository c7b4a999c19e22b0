"""The text of layouts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openinfer.affine import Index
from openinfer.layout import Digit, Layout, LayoutTextError, layout_text, read_layout

EXTENTS = st.integers(1, 9).map(Index.of)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    shape = tuple(draw(st.lists(EXTENTS, max_size=4)))
    if not shape:
        return Layout((), ())
    digits = st.builds(Digit, st.integers(0, len(shape) - 1), st.integers(1, 16), EXTENTS)
    places = st.tuples(st.integers(0, 3), st.integers(0, 3))
    halo = draw(st.just(()) | st.tuples(*[places] * len(shape)))
    fill = draw(st.integers(-128, 127)) if halo else 0
    return Layout(shape, tuple(draw(st.lists(digits, max_size=6))), halo, fill)


def test_an_image_with_channels_innermost() -> None:
    shape = tuple(map(Index.of, (1, 3, 8, 8)))
    digits = (Digit(0, 1, Index.of(1)), Digit(2, 1, Index.of(10)), Digit(3, 1, Index.of(10)), Digit(1, 1, Index.of(4)))
    text = "[1, 3, 8, 8] as d0:1 d2:10 d3:10 d1:4 halo 0+0 0+0 1+1 1+1"
    assert layout_text(Layout(shape, digits, ((0, 0), (0, 0), (1, 1), (1, 1)))) == text


@given(layouts())
def test_text_reads_back(layout: Layout) -> None:
    assert read_layout(layout_text(layout)) == layout


@pytest.mark.parametrize("text", ["", "[2, 3]", "[2] as d1:2", "[2] as d0:2 halo 1+1 0+0", "[2] as e0:2"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(LayoutTextError):
        read_layout(text)
