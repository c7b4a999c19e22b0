"""Computations under other names for their axes."""

from __future__ import annotations

from openinfer.compute.reading import parse_computation
from openinfer.compute.substitution import numbered
from openinfer.compute.text import computation_text

TEXT = """
def picked(x: f32[4, 6], at: i64[4], /, y: f32[4], z: f32[4, {extent}]{parameter}):
    for {a}, row in grid(4, 1):
        {b} = lookup(at[{a}], 6, 'a place')
        y[{a}] = x[{a}, {b}]
    for {c}, {d} in grid(4, {extent}):
        z[{c}, {d}] = y[{c}]
"""


def shown(extent: str, parameter: str, *axes: str) -> str:
    return TEXT.format(extent=extent, parameter=parameter, **dict(zip("abcd", axes, strict=True)))


def test_axes_are_numbered_in_the_order_of_stages_and_other_names_stay() -> None:
    found = numbered(parse_computation(shown("3", "", "i7", "i12", "i9", "i1")))
    expected = parse_computation(shown("3", "", "i0", "i1", "i2", "i3"))
    assert computation_text(found) == computation_text(expected)
    assert found == expected
    assert numbered(expected) is expected
