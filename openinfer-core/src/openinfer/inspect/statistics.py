"""Numbers about values and steps, for people: `openinfer run` prints them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from openinfer.events import TraceEvent
    from openinfer.simulate.values import Tensor


@dataclass(frozen=True, slots=True)
class Summary:
    """Extremes and mean of the elements that are numbers, and how many are not. None for no such elements."""

    minimum: float | int | None
    maximum: float | int | None
    mean: float | None
    nan: int


def summarise(tensor: Tensor) -> Summary:
    """Return the statistics of a value; bools count as 0 and 1, NaNs are left out and counted."""
    array: Any = tensor.array
    exact = array.astype(np.float64 if tensor.dtype.is_float else array.dtype).reshape(-1)
    unordered = np.isnan(exact) if tensor.dtype.is_float else np.zeros(exact.shape, np.bool_)
    numbers = exact[~unordered]
    if numbers.size == 0:
        return Summary(None, None, None, int(unordered.sum()))
    with np.errstate(all="ignore"):
        mean = float(numbers.astype(np.float64).mean())
    low, high = (e.item() for e in (numbers.min(), numbers.max()))
    if tensor.dtype.is_float:
        return Summary(low, high, mean, int(unordered.sum()))
    return Summary(int(low), int(high), mean, 0)


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """How often an operator ran, and how long in all."""

    op: str
    count: int
    total_ns: int
    share: float


def operator_times(events: Iterable[TraceEvent]) -> list[OperatorTime]:
    """Return the time of every operator in a trace, longest first; ``share`` is of all operators' time."""
    counts: dict[str, int] = {}
    totals: dict[str, int] = {}
    for event in events:
        if event.op_name:
            counts[event.op_name] = counts.get(event.op_name, 0) + 1
            totals[event.op_name] = totals.get(event.op_name, 0) + event.duration_ns
    whole = math.fsum(totals.values()) or 1.0
    times = [OperatorTime(op, counts[op], total, total / whole) for op, total in totals.items()]
    return sorted(times, key=lambda time: (-time.total_ns, time.op))
