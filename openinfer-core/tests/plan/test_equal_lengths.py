"""Registers that hold the same length: from the step that copies one until a step changes either."""

from __future__ import annotations

import pytest

from openinfer.affine import Index
from openinfer.plan.equal_lengths import EqualLengths
from openinfer.plan.operands import Symbol
from openinfer.plan.setting_ranges import length_range
from openinfer.plan.steps import CallStep, LoopStep, Origin, PlaceStep, Register, SetStep
from openinfer.plan.values import PlanRegister

AT = Origin("entry", ())
REGISTERS = [PlanRegister(number=n, name=f"r{n}", initial=0, is_kept=n == 3, most=8) for n in range(4)]


def held(register):
    return Index.of(Symbol(f"r{register}", operand=Register(register)))


def sets(**values):
    """Return a step that sets registers, such as ``r1=held(0)``."""
    return SetStep(origin=AT, values=tuple((int(name[1:]), value) for name, value in values.items()))


def after(*steps):
    """Return the registers that registers 0 to 3 are copies of after some steps."""
    lengths = EqualLengths()
    for step in steps:
        lengths.add(step, REGISTERS)
    return [lengths.original(Register(n)).number for n in range(4)]


LOOP = LoopStep(origin=AT, loop=0, name="l", index="i", start=Index.of(0), end=Index.of(2), runs=True, body=())


@pytest.mark.parametrize(
    ("steps", "originals"),
    [
        ([sets(r1=held(0))], [0, 0, 2, 3]),
        ([sets(r1=held(0)), sets(r2=held(1))], [0, 0, 0, 3]),
        ([sets(r1=held(0), r2=held(0))], [0, 0, 0, 3]),
        ([sets(r1=held(0)), sets(r0=Index.of(2))], [0, 1, 2, 3]),
        ([sets(r1=held(0)), sets(r1=Index.of(2))], [0, 1, 2, 3]),
        ([sets(r1=held(0) + 1)], [0, 1, 2, 3]),
        # Both are set at once, to what they were before.
        ([sets(r1=held(0), r0=held(1))], [0, 1, 2, 3]),
        ([sets(r1=held(3))], [0, 1, 2, 3]),
        ([sets(r1=held(0)), PlaceStep(origin=AT, register=0, value=Index.of(1), range=length_range(8))], [0, 1, 2, 3]),
        ([sets(r1=held(0)), CallStep(origin=AT, procedure="other")], [0, 1, 2, 3]),
        ([sets(r1=held(0)), LOOP], [0, 1, 2, 3]),
    ],
)
def test_a_copy_is_known_until_a_step_changes_it(steps, originals):
    assert after(*steps) == originals
