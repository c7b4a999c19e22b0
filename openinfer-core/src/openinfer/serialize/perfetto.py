"""Traces in the JSON event format of Chrome, which Perfetto (https://ui.perfetto.dev) opens.

The format is that of "Trace Event Format" (complete ``X``, instant ``i``, counter ``C`` and metadata ``M`` events):
``ts`` and ``dur`` in microseconds, one ``tid`` for each track.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from openinfer.boundary import public
from openinfer.diagnostics import printable
from openinfer.errors import SerializationError
from openinfer.ir.nodes import CacheWrite
from openinfer.ir.resolved import ResolvedVar
from openinfer.ir.uses import writes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from openinfer.events import MemoryUse, Scope, TraceEvent
    from openinfer.ir.nodes import Node
    from openinfer.ir.resolved import PrefixTable, ResolvedGraph

PROCESS = 1
"""The process id of all tracks."""


@public
def trace_to_perfetto(
    events: Iterable[TraceEvent], memory: Iterable[MemoryUse] = (), program: ResolvedGraph | None = None
) -> dict[str, Any]:
    """Return a trace as a document that Perfetto and ``chrome://tracing`` open.

    ``entry`` and every consumer block are tracks, each followed by that of the device where operators were timed by the
    clock of the device. Runs of blocks, runs of loops and their turns are slices, nested as
    they ran; operators that were timed are slices in them, all other nodes are instants.

    Args:
        events: of an executor, as `Executor.trace` returns them.
        memory: live bytes, as `memory_over_time` returns them: one counter for each kind of memory.
        program: `Executor.program`: each node then has its line, and the type and bytes of each of its results.

    Raises:
        SerializationError: the events have no times: they come from the JSON form, which keeps none.
    """
    tracks: dict[str, list[TraceEvent]] = {"entry": []}
    for event in events:
        tracks.setdefault(event.track, []).append(event)
    slices: list[dict[str, Any]] = [_metadata("process_name", 0, "openinfer")]
    number = 0
    for name, track in tracks.items():
        number += 1
        slices += [_metadata("thread_name", number, name), *_track(number, track)]
        if any(event.device_start_ns is not None for event in track):
            number += 1
            slices += [_metadata("thread_name", number, f"{name}: device"), *_on_device(number, track)]
    slices += [_counter(use) for use in memory]
    if program is not None:
        _add_facts(slices, program)
    return {"displayTimeUnit": "ns", "traceEvents": slices}


def _add_facts(slices: Iterable[dict[str, Any]], program: ResolvedGraph) -> None:
    """Add what the program says of the nodes of slices: lines, and types and bytes of results."""
    nodes = {node.index: node for _, node in program.graph.nodes()}
    for slice_ in slices:
        node = nodes.get(slice_.get("args", {}).get("node", -1))
        if node is None:
            continue
        if node.span is not None:
            slice_["args"]["line"] = node.span.line
        results = {name: value for name in sorted(writes(node)) if (value := _written(name, node, program)) is not None}
        if results:
            slice_["args"]["results"] = {name: _result(value) for name, value in results.items()}


def _written(name: str, node: Node, program: ResolvedGraph) -> ResolvedVar | PrefixTable | None:
    """Return what has the type of the value that a node writes to a variable; None where nothing has."""
    if isinstance(node.kind, CacheWrite) and node.kind.dst.slots:
        # The variable's own type is that of one entry.
        source = node.kind.src.name
        return program.variables.get(source) or program.tables.get(source)
    return program.variables.get(name)


def _result(variable: ResolvedVar | PrefixTable) -> str:
    """Return type and bytes; the shape of a variable that varies is known only while the program runs."""
    if isinstance(variable, ResolvedVar) and variable.varying:
        return f"{variable.type.dtype.name}, the shape varies"
    return f"{variable.type}, {variable.type.nbytes} bytes"


@dataclass(slots=True)
class _Open:
    """A slice that has begun: a run, or one turn of it."""

    scope: Scope
    turn: int | None
    begun_ns: int
    slice: dict[str, Any] = field(default_factory=dict[str, Any])

    def is_part(self, scope: Scope, turn: int | None) -> bool:
        return self.scope is scope and self.turn == turn


def _track(number: int, events: Sequence[TraceEvent]) -> list[dict[str, Any]]:
    """Return the slices and instants of one track, in the order in which they begin, outer ones first."""
    slices: list[dict[str, Any]] = []
    stack: list[_Open] = []
    reached = 0
    before: TraceEvent | None = None
    for event in events:
        if event.start_ns < reached or (before is not None and event.start_ns == 0):
            raise SerializationError("the events have no times or are out of order: take them from Executor.trace()")
        if before is None or event.scope is not before.scope or event.turn != before.turn:
            _move(stack, event, number, reached, slices)
        slices.append(_node(number, event))
        reached, before = event.start_ns + event.duration_ns, event
    _close(stack, 0, reached)
    return slices


def _on_device(number: int, events: Sequence[TraceEvent]) -> Iterator[dict[str, Any]]:
    """Yield the work of the device for operators, one after the other."""
    reached = 0
    for event in events:
        if event.device_start_ns is None:
            continue
        begun = max(event.device_start_ns, reached)
        reached = begun + event.duration_ns
        work = {"cat": event.op_name, "dur": event.duration_ns / 1000, "args": {"node": event.node_index}}
        yield _slice(number, event.node_desc, begun) | work


def _move(stack: list[_Open], event: TraceEvent, number: int, reached: int, slices: list[dict[str, Any]]) -> None:
    """End the slices that an event is not in, and begin those that it is in."""
    wanted = list(_around(event))
    wanted.reverse()
    same = 0
    while same < min(len(stack), len(wanted)) and stack[same].is_part(*wanted[same]):
        same += 1
    _close(stack, same, reached)
    for scope, turn in wanted[same:]:
        begun = _Open(scope, turn, event.start_ns, _slice(number, _title(scope, turn), event.start_ns))
        stack.append(begun)
        slices.append(begun.slice)


def _around(event: TraceEvent) -> Iterator[tuple[Scope, int | None]]:
    """Yield the runs and turns around an event, innermost first."""
    scope, turn = event.scope, event.turn
    while scope is not None:
        if turn is not None:
            yield scope, turn
        yield scope, None
        scope, turn = scope.parent, scope.turn


def _close(stack: list[_Open], kept: int, reached: int) -> None:
    while len(stack) > kept:
        ended = stack.pop()
        ended.slice["dur"] = (reached - ended.begun_ns) / 1000


def _title(scope: Scope, turn: int | None) -> str:
    return f"{scope.kind} {scope.name}" if turn is None else f"{scope.counter} = {turn}"


def _slice(number: int, name: str, start_ns: int) -> dict[str, Any]:
    return {"ph": "X", "pid": PROCESS, "tid": number, "name": printable(name), "ts": start_ns / 1000, "dur": 0.0}


def _node(number: int, event: TraceEvent) -> dict[str, Any]:
    slice_ = _slice(number, event.node_desc, event.start_ns)
    slice_["cat"] = event.op_name or event.kind
    if event.duration_ns:
        slice_["dur"] = event.duration_ns / 1000
    else:
        del slice_["dur"]
        slice_ |= {"ph": "i", "s": "t"}
    texts = {"inputs": list(event.params), "output": list(event.output)}
    slice_["args"] = {"kind": event.kind, "block": event.block_name, "node": event.node_index, **texts}
    return slice_


def _metadata(kind: str, number: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": PROCESS, "tid": number, "name": kind, "args": {"name": printable(name)}}


def _counter(use: MemoryUse) -> dict[str, Any]:
    return {
        "ph": "C",
        "pid": PROCESS,
        "tid": 0,
        "name": "live bytes",
        "ts": use.time_ns / 1000,
        "args": dict(use.live),
    }
