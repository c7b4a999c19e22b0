"""Sets of values as bits."""

from __future__ import annotations

import pytest

from openinfer.plan.accesses import mask, members


@pytest.mark.parametrize(
    "values",
    [(), (0,), (63,), (3, 64, 1000), tuple(range(20)), (0, *range(5, 4000, 7), 9001)],
    ids=["none", "first", "one", "few", "dense", "many"],
)
def test_that_members_of_a_set_are_what_it_was_made_of_in_ascending_order(values: tuple[int, ...]) -> None:
    bits = mask(reversed(values))
    assert bits == sum(2**value for value in values)
    assert list(members(bits)) == list(values)
