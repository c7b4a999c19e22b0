"""How long two ranges of a cache are together, from their ends, until a step changes what these depend on."""

from __future__ import annotations

import pytest

from openinfer import symbolic
from openinfer.affine import Index
from openinfer.dims import index_of_expression
from openinfer.plan.operands import Symbol
from openinfer.plan.range_lengths import RangeLengths
from openinfer.plan.regions import Axis, Region
from openinfer.plan.steps import CallStep, CountStep, LoadStep, Origin, Register, SetStep, ValueRef

AT = Origin("entry", ())
BINDINGS = {"n": Symbol("n", operand=ValueRef(0)), "m": Symbol("m", operand=ValueRef(1)), "B": 16}
OLDER, NEWER, KEPT = 0, 1, 2


def expression(text):
    return index_of_expression(symbolic.parse(text), lambda name: Index.of(BINDINGS[name]))


def read(start, end, register, *, may_count_from_end=False):
    """Return the step that reads rows of a cache of 16, how many into a register."""
    kept = Index.of(Symbol("r", operand=Register(KEPT)))
    current = kept if may_count_from_end else None
    axis = Axis(expression(start), expression(end), Index.of(16), 1, 16, current=current)
    return LoadStep(origin=AT, source=5, region=Region((axis,)), output=6 + register, lengths=(register,))


def together(*steps):
    lengths = RangeLengths()
    for step in steps:
        lengths.add(step)
    return lengths.together(Register(OLDER), Register(NEWER))


@pytest.mark.parametrize(
    ("older", "newer", "length"),
    [
        (("n % 16", "16"), ("0", "n % 16"), 16),
        (("(n + 1) % B", "B"), ("0", "(n + 1) % B"), 16),
        (("n", "12"), ("2", "n"), 10),
        (("n", "m"), ("0", "n"), None),
        (("n % 16", "16"), ("0", "(n + 1) % 16"), None),
        (("n % 16", "16"), ("0", "m % 16"), None),
    ],
)
def test_the_parts_of_a_ring_have_a_length_together(older, newer, length):
    assert together(read(*older, OLDER), read(*newer, NEWER)) == length
    assert together(read(*newer, NEWER), read(*older, OLDER)) == length


def test_an_end_counts_from_the_end_unless_a_range_begins_there_too():
    newer = read("0", "n", NEWER, may_count_from_end=True)

    assert together(newer, read("n", "16", OLDER)) == 16
    assert together(read("n", "16", OLDER), newer) == 16
    assert together(newer, read("0", "16 - n", OLDER)) is None


@pytest.mark.parametrize(
    "change",
    [
        CountStep(origin=AT, target=0, amount=Index.of(1)),
        SetStep(origin=AT, values=((OLDER, Index.of(3)),)),
        CallStep(origin=AT, procedure="other"),
        read("0", "m", OLDER),
    ],
)
def test_a_step_in_between_may_change_the_place(change):
    assert together(read("n", "16", OLDER), change, read("0", "n", NEWER)) is None


def test_other_steps_change_nothing():
    change = CountStep(origin=AT, target=1, amount=Index.of(1))

    assert together(read("n", "16", OLDER), change, read("0", "n", NEWER)) == 16
