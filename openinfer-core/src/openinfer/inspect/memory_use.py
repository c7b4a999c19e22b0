"""Memory over time: what a step holds after every node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.events import MemoryUse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.events import TraceEvent
    from openinfer.simulate.execute.executor import Executor


def memory_over_time(executor: Executor) -> Iterator[MemoryUse]:
    """Run one step of an executor, node by node, and yield the bytes that hold values after each, in consumers too.

    Raises:
        ExecutionError: the step failed.
    """
    for run in executor.iterate(consumers=True):
        yield memory_after(executor, run.event)


def memory_after(executor: Executor, event: TraceEvent) -> MemoryUse:
    """Return the bytes that hold values at this moment, right after a node has run."""
    live = executor.live_bytes()
    return MemoryUse(node_index=event.node_index, node_desc=event.node_desc, time_ns=event.start_ns, live=live)


def peak(uses: Sequence[MemoryUse]) -> MemoryUse | None:
    """Return the first moment at which most bytes hold values; None for an empty sequence."""
    return max(uses, key=lambda use: use.total, default=None)
