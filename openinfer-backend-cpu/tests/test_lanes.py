"""Pieces that need scratch memory run at the same time, each in memory of its own."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from threading import Barrier

import pytest

from openinfer.testing.waiting import limit_s
from openinfer_backend_cpu.lanes import LANES, in_lanes
from openinfer_backend_cpu.linear_algebra import OwnThreads, ProcessThreads, linear_algebra

PIECES = 20


@pytest.fixture(params=[1, 2, 9])
def count(request: pytest.FixtureRequest) -> Iterator[int]:
    """Let the library under NumPy use so many threads."""
    threads = linear_algebra().threads
    if not isinstance(threads, ProcessThreads | OwnThreads):
        pytest.skip(f"{linear_algebra().name}: a library whose threads cannot be limited")
    before = threads.count()
    threads.set_count(request.param)
    yield request.param
    threads.set_count(before)


def test_every_piece_has_memory_of_its_own_while_it_runs(count: int) -> None:
    results = [0] * PIECES
    met = Barrier(min(count, LANES))

    def pieces() -> list[partial[None]]:
        scratch = [0]

        def run(number: int) -> None:
            scratch[0] = number
            met.wait(limit_s(20))
            results[number] += scratch[0]

        return [partial(run, number) for number in range(PIECES)]

    call = in_lanes(pieces)
    call()
    call()
    assert results == [2 * number for number in range(PIECES)]


def test_there_are_no_more_lanes_than_pieces() -> None:
    asked: list[int] = []

    def pieces() -> list[partial[None]]:
        asked.append(0)
        return [partial(asked.append, 1)] * 2

    in_lanes(pieces)()
    assert asked == [0, 0, 1, 1]


def test_a_piece_that_raises_returns_its_lane(count: int) -> None:
    del count
    left = [1] * (2 * LANES)

    def fail() -> None:
        if left:
            left.pop()
            raise ZeroDivisionError

    call = in_lanes(lambda: [fail] * PIECES)
    while left:
        with pytest.raises(ZeroDivisionError):
            call()
    call()
