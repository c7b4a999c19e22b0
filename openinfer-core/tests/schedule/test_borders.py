"""How much of a sliding window lies inside of its image."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from openinfer.affine import Index, Var
from openinfer.schedule.borders import Window


@given(
    places=st.integers(1, 9),
    taps=st.integers(1, 5),
    step=st.integers(1, 3),
    dilation=st.integers(-3, 3),
    padding=st.integers(-4, 4),
    extent=st.integers(1, 12),
)
def test_the_share_of_a_window_counts_what_it_reads_inside_of_the_image(
    places: int, taps: int, step: int, dilation: int, padding: int, extent: int
):
    axis, tap = Var("p", places), Var("t", taps)
    index = Index.of(axis) * step + Index.of(tap) * dilation - padding
    inside = [0 <= p * step + t * dilation - padding < extent for p, t in product(range(places), range(taps))]

    assert Window(axis, tap, index, extent, step, dilation).share == sum(inside) / len(inside)


@given(
    places=st.integers(1, 9),
    taps=st.integers(1, 5),
    step=st.integers(1, 3),
    padding=st.integers(0, 4),
    halo=st.integers(0, 2),
    extent=st.integers(1, 12),
)
def test_places_between_the_borders_read_nothing_outside(
    places: int, taps: int, step: int, padding: int, halo: int, extent: int
):
    axis, tap = Var("p", places), Var("t", taps)
    parts = Window(axis, tap, Index.of(axis) * step + tap - padding, extent, step, 1, (halo, halo)).parts
    reads = [[p * step + t - padding for t in range(taps)] for p in range(places)]
    is_inside = [all(-halo <= at < extent + halo for at in read) for read in reads]

    assert sum(parts) == places
    if len(parts) == 3:
        first, inside, _ = parts
        assert is_inside == [first <= place < first + inside for place in range(places)]
    else:
        assert not any(is_inside)


def test_windows_along_millions_of_samples_are_counted_without_visiting_them():
    axis, tap = Var("p", 10**12), Var("t", 400)
    index = Index.of(axis) + tap - 200

    assert 0.99 < Window(axis, tap, index, 10**12, 1, 1).share < 1
