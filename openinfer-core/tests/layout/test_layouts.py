"""Layouts place elements where NumPy's reshapes and transpositions of the tensor have them."""

from __future__ import annotations

import numpy as np
import pytest

from openinfer.affine import Index, Var
from openinfer.layout import Digit, Layout, row_major

SHAPE = (6, 4, 3)
ELEMENTS = np.arange(72).reshape(SHAPE)


def digits(*given: tuple[int, int, int]) -> tuple[Digit, ...]:
    return tuple(Digit(dim, stride, Index.of(extent)) for dim, stride, extent in given)


def test_a_layout_over_a_size_of_run_time_has_no_length() -> None:
    assert row_major((Index.of(6), Index.of(4))).length == 24
    with pytest.raises(TypeError, match=r"T elements has a length that is known at run time only"):
        _ = row_major((Index.of(Var("T")), Index.of(4))).length


@pytest.mark.parametrize(
    ("layout", "stored"),
    [
        (row_major(tuple(map(Index.of, SHAPE))).digits, ELEMENTS),
        (digits((1, 1, 4), (2, 1, 3), (0, 1, 6)), ELEMENTS.transpose(1, 2, 0)),
        (digits((0, 2, 3), (1, 1, 4), (2, 1, 3), (0, 1, 2)), ELEMENTS.reshape(3, 2, 4, 3).transpose(0, 2, 3, 1)),
    ],
    ids=["row-major", "channels last", "blocked"],
)
def test_elements_lie_where_the_digits_say(layout: tuple[Digit, ...], stored: np.ndarray) -> None:
    found = Layout(tuple(map(Index.of, SHAPE)), layout)
    axes = [Var(name, extent) for name, extent in zip("ijk", SHAPE, strict=True)]
    address = found.address([Index.of(axis) for axis in axes])
    flat = stored.reshape(-1)
    assert found.size.constant == flat.size
    for place in np.ndindex(SHAPE):
        assert flat[address.evaluate(dict(zip("ijk", place, strict=True)))] == ELEMENTS[place]
