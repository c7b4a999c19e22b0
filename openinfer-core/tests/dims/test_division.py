"""Products of extents, divided by one of them."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from openinfer.affine import Index, Var
from openinfer.dims import Dim, Space
from openinfer.dims.division import divided


def sizes() -> tuple[Dim, Dim]:
    space = Space(answers_outside=True)
    return space.size("a", 1, 100), space.size("b", 1, 100)


A, B = sizes()
EXTENTS = [A + 1, 2 * A + 3, (A + 1) // 2, -(-A // 2), ((A + 1) // 2 + 1) // 2, A + B, A * B + 1, (A + 1) // 2 * B]


@pytest.mark.parametrize("extent", EXTENTS, ids=str)
def test_a_multiple_of_an_extent_divides_by_it(extent: Dim) -> None:
    assert (512 * extent) // extent == 512
    assert (512 * extent) % extent == 0
    assert str(extent * (B + 2) // extent) == str(B + 2)


def test_the_rest_of_a_division_keeps_its_quotient() -> None:
    assert str((3 * (A + 1) * B + 1) // (A + 1)) == "3*b"
    assert (3 * (A + 1) * B + 1) % (A + 1) == 1


INDICES = st.sampled_from([extent.index for extent in EXTENTS])


@given(INDICES, INDICES, st.integers(-9, 9), st.integers(1, 50), st.integers(1, 50))
def test_the_parts_add_up(left: Index, right: Index, more: int, a: int, b: int) -> None:
    of, values = left * right + more, {"a": a, "b": b}
    multiple, rest = divided(of, right)
    assert right.evaluate(values) * multiple.evaluate(values) + rest.evaluate(values) == of.evaluate(values)
    assert divided(left * right, right) == (left, Index())


def test_places_that_a_quotient_divides_lie_within_it() -> None:
    """Loops over B rows run only where the quotient of what these hold is 1 or more."""
    space = Space(joins=True)
    rows = Index.of(space.size("B", 0, 8))
    row, place = Var("i", rows), Var("j", 6)

    def is_within() -> bool:
        divisor = (rows * 6) // 4
        return ((row * 6 + place) % divisor).is_within(0, divisor, (row, place))

    (path,) = space.explore(is_within)

    assert path.value is True
