"""Schedules as text, and what a schedule may not do to its stage."""

from __future__ import annotations

import pytest

from openinfer.arch import TargetInfo
from openinfer.compute import Stage
from openinfer.compute.reading import parse_computation
from openinfer.schedule import Loop, Schedule, ScheduleError, packing, verify
from openinfer.schedule.text import parse_schedule, schedule_text


def product(order: str = "unordered") -> Stage:
    (stage,) = parse_computation(f"""
def product(x: f32[6, 8], w: f32[8, 20], /, y: f32[6, 20]):
    for i, j in grid(6, 20):
        for k, m in {order}(4, 2):
            total0 = start(0.0)
            term0 = x[i, 2*k + m] * w[2*k + m, j]
            total0 = total0 + term0
        y[i, j] = total0
""").stages
    return stage


def schedule(text: str, stage: Stage) -> Schedule:
    return parse_schedule(text, (*stage.axes, *(stage.fold.axes if stage.fold else ())))


@pytest.mark.parametrize(
    "text",
    [
        "i j",
        "j:8 i:2 k m=partial i=unroll j:4=unroll j=lanes",
        "i j k m=unroll stream=1",
        "i j k m stream=1 skip=0",
        "i j k m skip=1",
        "i j:4 k m:2 j=unroll m=joined",
        "",
    ],
)
def test_text_reads_back(text: str) -> None:
    assert schedule_text(schedule(text, product())) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("i j=wide", "'j=wide' is not a loop: expected axis, axis:step"),
        ("i q", "'q' is over an unknown axis; known: i, j, k, m"),
        ("i:0 j", "'i:0' is not a loop"),
    ],
)
def test_text_that_is_not_a_schedule(text: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        schedule(text, product())


@pytest.mark.parametrize(
    "text",
    [
        "i j",
        "j i",
        "i j k m",
        "j:8 i:2 k m i=unroll j:4=unroll j=lanes",
        "i j k:2 k=partial m=unroll",
        "i j k m:2 m=lanes",
    ],
)
def test_schedules_that_fit(text: str) -> None:
    stage = product()
    verify(schedule(text, stage), stage)


@pytest.mark.parametrize(
    ("order", "text", "message"),
    [
        ("unordered", "i", "the innermost loop over j has step 1: found steps \\[\\]"),
        ("unordered", "i:2 j", "the innermost loop over i has step 1: found steps \\[2\\]"),
        ("unordered", "i j:8 j:3 j", "steps of 3 inside of 8"),
        ("unordered", "i k m j", "the serial loop over j is inside of a tile"),
        ("unordered", "i:2 j:4 k m j=lanes i=unroll", "lanes along j are not innermost"),
        ("unordered", "i j k m skip=0", "terms past the border of element 0 are not zero for certain"),
        ("unordered", "i j=partial k m", "partial totals are copies along a folded axis"),
        ("sequential", "i j k=partial m", "allows no partial totals"),
        ("sequential", "i j k m:2 m=lanes", "allows no partial totals"),
        ("unordered", "i j k m:2 m=joined", "joined lanes are those of a folded axis, along which integers"),
        ("sequential", "i j m k", "a sequential fold visits its terms"),
        ("sequential", "i j m k=unroll stream=0", "a sequential fold visits its terms"),
    ],
)
def test_schedules_that_do_not_fit(order: str, text: str, message: str) -> None:
    stage = product(order)
    with pytest.raises(ScheduleError, match=message):
        verify(schedule(text, stage), stage)


def test_totals_of_integers_fit_the_registers_of_integers() -> None:
    stage = parse_computation("""
def products(x: i32[6, 4], /, y: i32[6]):
    for i in grid(6):
        for k in unordered(4):
            total0 = start(i32(0))
            term0 = x[i, k]
            total0 = total0 + term0
        y[i] = total0
""").stages[0]
    verify(schedule("i k:4 k=joined", stage), stage)
    wide = schedule("i:6 k i=unroll", stage)
    verify(wide, stage, TargetInfo(registers=5, integer_registers=6))
    with pytest.raises(ScheduleError, match="6 totals at once, the target has 5 registers"):
        verify(wide, stage, TargetInfo(registers=6, integer_registers=5))


def test_totals_fit_the_registers() -> None:
    stage = product()
    wide = schedule("j:4 i:6 k m i=unroll j=lanes", stage)
    verify(wide, stage, TargetInfo(registers=6))
    with pytest.raises(ScheduleError, match="6 totals at once, the target has 5 registers"):
        verify(wide, stage, TargetInfo(registers=5))


def test_updates_follow_one_another() -> None:
    (stage,) = parse_computation("""
def add(x: f32[4], /, y: f32[4]):
    for i in grid(4):
        y[i] = y[i] + x[i]
""").stages
    with pytest.raises(ScheduleError, match="places of a stage with lookups, checks or updates follow one another"):
        verify(Schedule((Loop(stage.axes[0], 4), *schedule("i=lanes", stage).loops)), stage)


def test_constants_lie_in_the_order_of_the_loops() -> None:
    (stage,) = parse_computation("""
def product(x: f32[6, 8], w: f32[8, 20], /, y: f32[6, 20]):
    for i, j in grid(6, 20):
        for k in unordered(8):
            total0 = start(0.0)
            term0 = x[i, k] * w[k, j]
            total0 = total0 + term0
        y[i, j] = total0
""").stages
    layout = packing(stage, schedule("j:8 i:2 k i=unroll j:4=unroll j=lanes", stage), "w")
    assert layout is not None
    assert [(digit.dim, digit.stride, digit.extent.constant) for digit in layout.digits] == [
        (1, 8, 3),
        (0, 1, 8),
        (1, 4, 2),
        (1, 1, 4),
    ]


def test_constants_at_other_places_are_not_packed() -> None:
    assert packing(product(), schedule("i j k m", product()), "w") is None
