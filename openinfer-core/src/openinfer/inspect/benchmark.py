"""How long a program takes: whole repetitions without tracing, and its nodes one by one in repetitions of their own."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median, quantiles
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from openinfer.ir.text import node_desc
from openinfer_oinf.progress import advance

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from openinfer.events import TraceEvent
    from openinfer.ir.nodes import Node
    from openinfer.simulate.execute.executor import Executor


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Times in nanoseconds: the median, the middle half, and the extremes."""

    median: float
    lower_quartile: float
    upper_quartile: float
    least: float
    most: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTime:
    """An operator's node in one repetition.

    Attributes:
        runs: how often it ran.
        median_ns: time of all its runs together, as the median of the repetitions.
        share: of the time of all nodes.
    """

    node_index: int
    node_desc: str
    block: str
    op: str
    runs: int
    median_ns: float
    share: float


def spread(times: Sequence[float]) -> Spread:
    """Return the median, quartiles (inclusive method) and extremes of times."""
    lower, _, upper = quantiles(times, n=4, method="inclusive") if len(times) > 1 else (times[0],) * 3
    return Spread(median=median(times), lower_quartile=lower, upper_quartile=upper, least=min(times), most=max(times))


def whole_times(
    executor: Executor, inputs: Sequence[Mapping[str, Any]], *, warm_up: int, repetitions: int
) -> list[int]:
    """Return nanoseconds of repetitions after ``warm_up`` that do not count.

    A repetition is one step for each of ``inputs``: inserting the values, running, waiting for the device. Every one
    begins with persistent memory as it is now; bringing it back is not timed.

    Raises:
        ExecutionError: a step failed.
    """
    state = executor.snapshot()
    found: list[int] = []
    for number in range(warm_up + repetitions):
        executor.restore(state)
        start = perf_counter_ns()
        for values in inputs:
            executor.insert(values)
            executor.step()
        executor.wait()
        duration = perf_counter_ns() - start
        if number >= warm_up:
            found.append(duration)
        advance(1)
    return found


def node_times(
    executor: Executor, inputs: Sequence[Mapping[str, Any]], *, warm_up: int, repetitions: int
) -> list[NodeTime]:
    """Return the time of every operator's node, longest first; ``executor`` records events and times operators.

    Raises:
        ExecutionError: a step failed.
    """
    state = executor.snapshot()
    samples: dict[int, list[int]] = {}
    last: dict[int, list[TraceEvent]] = {}
    for number in range(warm_up + repetitions):
        executor.restore(state)
        executor.clear_trace()
        for values in inputs:
            executor.insert(values)
            executor.step()
        if number >= warm_up:
            last = _by_node(executor.trace())
            for index, events in last.items():
                samples.setdefault(index, []).append(sum(event.duration_ns for event in events))
        advance(1)
    whole = sum(median(times) for times in samples.values()) or 1.0
    nodes = {node.index: node for _, node in executor.program.graph.nodes()}
    found = [_node_time(nodes[index], events, median(samples[index]), whole) for index, events in last.items()]
    return sorted(found, key=lambda each: (-each.median_ns, each.node_index))


def _by_node(events: Iterable[TraceEvent]) -> dict[int, list[TraceEvent]]:
    found: dict[int, list[TraceEvent]] = {}
    for event in events:
        if event.op_name:
            found.setdefault(event.node_index, []).append(event)
    return found


def _node_time(node: Node, events: Sequence[TraceEvent], nanoseconds: float, whole: float) -> NodeTime:
    first = events[0]
    return NodeTime(
        node_index=node.index,
        node_desc=node_desc(node),
        block=first.block_name,
        op=first.op_name,
        runs=len(events),
        median_ns=nanoseconds,
        share=nanoseconds / whole,
    )
