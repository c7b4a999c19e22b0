"""Extents that broadcast as one size: what numbers broadcast to at every value, and places with a stride of 0 or 1."""

from __future__ import annotations

from itertools import product

import pytest

from openinfer.affine import Index, Var
from openinfer.dims import Space, evaluated, place_of, stretches
from openinfer.errors import OpenInferError
from openinfer.ops.shapes import broadcast

SIZES = tuple(dict(zip("TUV", values, strict=True)) for values in product(range(4), repeat=3))


def rule_of(*shapes):
    """Return a space whose sizes join, and the ways through `broadcast` of shapes of its sizes and numbers."""
    space = Space(joins=True)
    sizes = {name: space.size(name, 0, 8) for name in "TUV"}
    extents = [[eval(part, {}, sizes) for part in shape] for shape in shapes]
    return space, space.explore(lambda: broadcast(*extents))


@pytest.mark.parametrize(
    "shapes",
    [
        (["T"], ["U"]),
        (["T"], ["U"], ["V"]),
        (["T", "U"], ["U", "T"]),
        (["T", 3], ["U", 1]),
        (["T"], [3]),
        (["T"], ["U"], [1]),
        (["T"], ["U"], [2]),
        (["2*T"], ["U"]),
        (["T + 1"], ["U"]),
        (["T + 2"], ["U"]),
        (["T"], ["T"]),
        (["V"], ["T", "U"]),
    ],
    ids=str,
)
def test_sizes_broadcast_to_what_numbers_do(shapes):
    shapes = [[str(part) for part in shape] for shape in shapes]
    _, paths = rule_of(*shapes)

    for sizes in SIZES:
        numbers = [[eval(part, {}, sizes) for part in shape] for shape in shapes]
        (path,) = (path for path in paths if path.is_taken(sizes))
        try:
            expected = broadcast(*numbers)
        except OpenInferError:
            assert path.error is not None, sizes
        else:
            assert path.value is not None, sizes
            assert tuple(evaluated(Index.of(extent), sizes) for extent in path.value) == expected, sizes


def test_any_number_of_dims_is_one_way():
    _, paths = rule_of(["T", "U", "V"], ["V", "T", "U"])

    assert sum(path.error is None for path in paths) == 1


def test_equal_extents_ask_nothing():
    _, (path,) = rule_of(["T", "2*U"], ["T", "U + U"])

    assert path.guards == ()
    assert tuple(map(str, path.value or ())) == ("T", "2*U")


def test_a_place_has_the_stride_of_an_extent_that_may_be_1():
    space = Space(joins=True)
    t, u = space.size("T", 0, 8), space.size("U", 2, 8)
    axis = Var("i", Index.of(u))

    def rule():
        assert stretches(t, u)
        return [str(place_of(axis, Index.of(extent))) for extent in (t, u, 1)]

    accepted = [path.value for path in space.explore(rule, errors=(AssertionError,)) if path.value is not None]

    assert accepted == [["i*stride(T)", "i", "0"]]
