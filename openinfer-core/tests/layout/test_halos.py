"""Layouts with places around the tensor, and arrays laid out by them."""

import numpy as np
import pytest

from openinfer.affine import Index, Var
from openinfer.layout import Digit, Layout
from openinfer.layout.text import read_layout

NHWC = Layout(
    (Index.of(3), Index.of(2), Index.of(4)),
    (Digit(1, 1, Index.of(4)), Digit(2, 1, Index.of(6)), Digit(0, 1, Index.of(4))),
    halo=((0, 0), (1, 1), (1, 1)),
)
"""3 channels in 4 places each, 2 rows of 4 columns with a border of one place all around."""


def test_halos_and_padding_take_places() -> None:
    assert NHWC.size == Index.of(4 * 6 * 4)


def test_addresses_reach_into_the_halo() -> None:
    c, y, x = Var("c", 3), Var("y", 2), Var("x", 4)
    address = NHWC.address((Index.of(c), y - 1, x - 1))
    assert address == y * 24 + x * 4 + c


def test_packed_arrays_have_zeros_around_their_elements() -> None:
    array = np.arange(1, 25, dtype=np.float32).reshape(3, 2, 4)
    packed = NHWC.pack(array).reshape(4, 6, 4)
    np.testing.assert_array_equal(packed[1:3, 1:5, :3], array.transpose(1, 2, 0))
    assert packed.sum() == array.sum()


def test_packing_refuses_other_shapes() -> None:
    with pytest.raises(ValueError, match="shape"):
        NHWC.pack(np.zeros((3, 2, 5), np.float32))


@pytest.mark.parametrize(
    "text",
    [
        "[5, 6, 20] as d0:5 d1:6 d2:20",
        "[5, 6, 20] as d2/8:3 d1/4:2 d0:5 d1:4 d2:8",
        "[5, 6, 20] as d1:8 d2:22 d0:6 halo 0+1 2+0 1+1",
        "[5, 6, 20] as d2/16:2 d2/4:4 d0:5 d1:6 d2:4",
        "[5, 6, 20] as d2/12:2 d0:5 d1:6 d2:16",  # digits that are not multiples of those below them
        "[1, 6, 20] as d2:20 d1:6",
    ],
)
def test_elements_lie_where_their_addresses_are(text: str) -> None:
    layout = read_layout(text)
    array = np.arange(1, 1 + np.prod([n.constant or 0 for n in layout.shape]), dtype=np.int32)
    array = array.reshape([n.constant or 0 for n in layout.shape])
    packed = layout.pack(array)

    expected = np.zeros(layout.size.constant or 0, np.int32)
    for place in np.ndindex(array.shape):
        expected[layout.address([Index.of(index) for index in place]).evaluate({})] = array[place]
    np.testing.assert_array_equal(packed, expected)
