"""Threads of a group that wait for one another: what such loop programs mean, and which are refused."""

from __future__ import annotations

import numpy as np
import pytest

from openinfer.loops import LoopProgramError, verify
from openinfer.loops.interpret import interpret
from openinfer.loops.reading import parse_kernel
from openinfer.loops.text import kernel_text

REVERSED = """
def turned(x: GLOBAL[i32, 12], y: GLOBAL[i32, 12]):
    for g in GROUP(3):
        part: SHARED[i32, 4]
        for t in LOCAL(4):
            part[t] = x[4*g + t]
            BARRIER()
            y[4*g + t] = part[-t + 3]
"""

TURNS = """
def turns(x: GLOBAL[i32, 12], y: GLOBAL[i32, 4]):
    part: SHARED[i32, 4]
    for t in LOCAL(4):
        total: i32 = i32(0)
        for step in SERIAL(3):
            part[t] = x[4*step + t]
            BARRIER()
            total = total * i32(10) + part[-t + 3]
            BARRIER()
        y[t] = total
"""

SUMS = """
def sums(x: GLOBAL[i32, 24], y: GLOBAL[i32, 8]):
    for g in GROUP(2):
        for row in LOCAL(2):
            for t in LOCAL(2):
                total: i32 = i32(0)
                for step in SERIAL(3):
                    total = total + x[12*g + 6*row + 2*step + t]
                with JOIN(t):
                    total = total + peer(total)
                y[4*g + 2*row + t] = total * i32(10) + number(t, i32)
"""

GREATEST = """
def greatest(x: GLOBAL[i32, 5], y: GLOBAL[i32, 5], at: GLOBAL[i64, 5]):
    for t in LOCAL(5):
        most: i32 = x[t]
        place: i64 = number(t, i64)
        with JOIN(t):
            most = select(gt(peer(most), most), peer(most), most)
            place = select(gt(peer(most), most), peer(place), place)
        y[t] = most
        at[t] = place
"""


def run(text: str, **arrays: np.ndarray) -> dict[str, np.ndarray]:
    kernel = parse_kernel(text)
    verify(kernel)
    assert kernel_text(kernel) == text.lstrip()
    interpret(kernel, arrays)
    return arrays


def test_what_threads_have_stored_before_a_barrier_others_read_after_it() -> None:
    x = np.arange(12, dtype=np.int32)

    found = run(REVERSED, x=x, y=np.zeros(12, np.int32))

    assert found["y"].reshape(3, 4).tolist() == x.reshape(3, 4)[:, ::-1].tolist()


def test_barriers_in_a_loop_part_its_iterations() -> None:
    x = np.array([1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3], np.int32)

    found = run(TURNS, x=x, y=np.zeros(4, np.int32))

    assert found["y"].tolist() == [483, 372, 261, 159]


def test_a_join_gives_the_threads_along_one_loop_one_value() -> None:
    x = np.random.default_rng(0).integers(0, 9, 24, np.int32)

    found = run(SUMS, x=x, y=np.zeros(8, np.int32))

    rows = x.reshape(4, 6).sum(1)
    assert found["y"].reshape(4, 2).tolist() == [[10 * row, 10 * row + 1] for row in rows]


@pytest.mark.parametrize("place", range(5))
def test_values_that_are_joined_together_advance_together(place: int) -> None:
    x = np.arange(5, dtype=np.int32)
    x[place] = 7

    found = run(GREATEST, x=x, y=np.zeros(5, np.int32), at=np.zeros(5, np.int64))

    assert found["y"].tolist() == [7] * 5
    assert found["at"].tolist() == [place] * 5


HALF = "if 0 <= t < 2:\n                BARRIER()"
PARTLY_JOINED = """
def partly(y: GLOBAL[i32, 4]):
    for t in LOCAL(4):
        total: i32 = number(t, i32)
        if 0 <= t < 2:
            with JOIN(t):
                total = total + peer(total)
        y[t] = total
"""
COMMON = """
def common(y: GLOBAL[i32, 4]):
    total: i32 = i32(0)
    for t in LOCAL(4):
        with JOIN(t):
            total = total + peer(total)
        y[t] = total
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (REVERSED.replace("            BARRIER()\n", ""), "use part"),
        (TURNS.replace("part[-t + 3]\n            BARRIER()", "part[-t + 3]"), "use part"),
        (SUMS.replace("JOIN(t)", "JOIN(g)"), "not a loop over threads"),
        (SUMS.replace("total * i32(10)", "total + peer(total)"), "outside of a join"),
        (REVERSED.replace("BARRIER()", HALF), "only some threads"),
        (PARTLY_JOINED, "only some threads"),
        (COMMON, "not a scalar of a thread"),
    ],
)
def test_threads_that_would_disturb_or_miss_one_another_are_refused(text: str, message: str) -> None:
    with pytest.raises(LoopProgramError, match=message):
        verify(parse_kernel(text))


def test_threads_that_do_not_meet_at_one_statement_are_an_error_of_the_interpreter() -> None:
    text = REVERSED.replace("BARRIER()", HALF)

    with pytest.raises(LoopProgramError, match="do not meet"):
        interpret(parse_kernel(text), {"x": np.zeros(12, np.int32), "y": np.zeros(12, np.int32)})
