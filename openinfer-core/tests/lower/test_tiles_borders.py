"""Terms past the border of an image: schedules that leave them out, and tests of places at borders only."""

from __future__ import annotations

from itertools import takewhile

import pytest
from tiled_stages import (
    FOUR,
    TARGETS,
    TEXTS,
    assert_right,
    convolution,
    image_layouts,
    largest_of_windows,
)

from openinfer.arch import TargetInfo
from openinfer.compute import Computation
from openinfer.compute.reading import parse_computation
from openinfer.layout import Layout
from openinfer.loops.text import kernel_text
from openinfer.lower import lowered
from openinfer.schedule import Schedule, choose, padded_factor
from openinfer.schedule.text import parse_schedule


def scheduled(computation: Computation, layouts: dict[str, Layout], text: str) -> tuple[Schedule, list[str]]:
    """Return a schedule of the one stage of a computation, and the lines of its loop program."""
    (stage,) = computation.stages
    assert stage.fold is not None
    schedule = parse_schedule(text, (*stage.axes, *stage.fold.axes))
    return schedule, kernel_text(lowered(computation, layouts, FOUR, {0: schedule})).splitlines()


def branches_in(lines: list[str]) -> int:
    return sum(line.strip().startswith("if 0 <=") for line in lines)


def products_in(lines: list[str]) -> int:
    return sum("fma" in line for line in lines)


@pytest.mark.parametrize("stride", [1, 2])
def test_terms_past_the_border_are_left_out(stride: int) -> None:
    computation = convolution((1, 8, 6, 6), 4, 3, stride, 1)
    layouts, side = image_layouts(computation, 4, 1), 6 // stride
    schedule, lines = scheduled(computation, layouts, f"n i j:{side} u c v=unroll j=unroll o=lanes skip=0")
    assert products_in(lines) == 3 * side - (2 if stride == 1 else 1)
    assert branches_in(lines) == 1
    accesses = assert_right(computation, FOUR, layouts, ("w", "b"), schedule)
    assert accesses.guarded == 0


def test_rows_that_a_loop_over_taps_tests_have_one_body() -> None:
    computation = convolution((1, 8, 6, 6), 4, 3, 1, 1)
    layouts = image_layouts(computation, 4, 0)
    schedule, lines = scheduled(computation, layouts, "n i j:6 u c v=unroll j=unroll o=lanes skip=0")
    # Columns at either border, and those between them, differ by their taps.
    assert branches_in(lines) == 3
    assert products_in(lines) == 3 * 6 - 2
    # What a loop tests, loads do not test again.
    assert not any("guarded(" in line for line in lines)
    assert_right(computation, FOUR, layouts, ("w", "b"), schedule)


def test_tiles_at_a_border_without_halo_have_bodies_without_the_terms_past_it() -> None:
    computation = convolution((1, 8, 8, 8), 4, 3, 1, 1)
    layouts = image_layouts(computation, 4, 0)
    schedule, lines = scheduled(computation, layouts, "n i j:2 u c v=unroll j=unroll o=lanes skip=0")
    # Of four tiles the first and the last leave out a term each, and two share a loop.
    assert [line.strip() for line in lines if line.strip().startswith("for j")] == ["for j_0 in SERIAL(2):"]
    assert products_in(lines) == 3 * (3 * 2) - 2
    assert not any("guarded(" in line for line in lines)
    assert_right(computation, FOUR, layouts, ("w", "b"), schedule)


def test_a_test_around_few_terms_is_not_made() -> None:
    computation = convolution((1, 1, 6, 6), 4, 3, 1, 1)
    layouts = image_layouts(computation, 4, 0)
    schedule, lines = scheduled(computation, layouts, "n i j:2 u c v=unroll j=unroll o=lanes skip=0")
    assert branches_in(lines) == 0
    assert_right(computation, FOUR, layouts, ("w", "b"), schedule)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.lanes(4)}")
@pytest.mark.parametrize("stride", [1, 2])
def test_schedules_that_leave_terms_out_are_chosen_where_they_may_be(stride: int, target: TargetInfo) -> None:
    computation = convolution((1, 8, 8, 8), 8, 3, stride, 1)
    (stage,) = computation.stages
    layouts = image_layouts(computation, target.lanes(4), 1)
    assert choose(stage, layouts, target).skip is None
    assert choose(stage, layouts, target, skip=0).skip == 0
    assert_right(computation, target, layouts, ("w", "b"), skip=0)


def test_only_products_of_one_padded_factor_are_left_out() -> None:
    assert padded_factor(convolution((1, 2, 4, 5), 5, 3, 1, 1).stages[0]) == (0, "w")
    assert padded_factor(parse_computation(TEXTS["product of rows"]).stages[0]) is None
    assert padded_factor(convolution((1, 2, 4, 5), 5, 3, 1, 1, "sequential").stages[0]) is None
    assert padded_factor(largest_of_windows((1, 2, 4, 5), "unordered").stages[0]) is None


def test_without_a_halo_only_borders_are_tested() -> None:
    computation = convolution((1, 4, 9, 9), 4, 3, 1, 1)
    layouts = image_layouts(computation, 4, 0)
    _, lines = scheduled(computation, layouts, "n i j c u v o=lanes")
    rows = lines[lines.index("    for i in SERIAL(7):") :]
    interior = rows[rows.index("        for j in SERIAL(7):") + 1 :]
    body = list(takewhile(lambda line: line.startswith(" " * 12), interior))
    assert "guarded" in "".join(lines)
    assert any("fma" in line for line in body)
    assert "guarded" not in "".join(body)
