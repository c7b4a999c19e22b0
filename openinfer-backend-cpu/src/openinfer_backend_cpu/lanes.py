"""Pieces of work that need scratch memory while they run, several at the same time."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from openinfer.bound_calls import in_order
from openinfer_backend_cpu.linear_algebra import linear_algebra
from openinfer_backend_cpu.matrix_products import alone, in_any_order

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openinfer.bound_calls import BoundCall


LANES = 4
"""Pieces that run at the same time at most."""


def in_lanes(bind: Callable[[], Sequence[BoundCall]]) -> BoundCall:
    """Return one call that makes those that ``bind`` returns, in any order.

    Calls that ``bind`` returns at once share scratch memory; it is called once for each lane. The linear algebra
    library is limited to one thread while they run.
    """
    first = bind()
    lanes = [first, *(bind() for _ in range(min(LANES, len(first)) - 1))]
    free = deque(lanes)
    threads, in_turn = linear_algebra().threads, alone(in_order(first))

    def piece(number: int) -> BoundCall:
        def run() -> None:
            lane = free.pop()
            try:
                lane[number]()
            finally:
                free.append(lane)

        return run

    at_once = in_any_order([piece(number) for number in range(len(first))], len(lanes))
    # One thread needs no lanes, and goes on in memory that is in its cache.
    return lambda: in_turn() if threads.count() == 1 else at_once()
