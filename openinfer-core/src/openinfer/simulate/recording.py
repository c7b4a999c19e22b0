"""Events of the nodes that a machine runs, timed and put on record."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from openinfer.events import KIND_OF_NODE, TraceEvent, split_duration
from openinfer.simulate.describe import Description
from openinfer.simulate.program import Action, Call, HandOver, Leave, Repeat, Segment

if TYPE_CHECKING:
    from openinfer.simulate.backend import DeviceBackend
    from openinfer.simulate.program import Item, Machine


Shown: TypeAlias = Action | Call | HandOver | Repeat | Leave
"""Items that are one node."""


@dataclass(slots=True, eq=False)
class Recorder:
    """Runs a machine node by node and tells what ran.

    Attributes:
        backend: waited for around operators when they are timed.
        timer: whether operators are timed.
        events: what has been recorded.
    """

    backend: DeviceBackend
    timer: bool
    origin_ns: int = field(default_factory=perf_counter_ns)
    events: list[TraceEvent] = field(default_factory=list[TraceEvent])

    def advance(self, machine: Machine, track: str = "entry") -> TraceEvent:
        """Run one node, go on to the next, and return the event of the first."""
        frame = machine.block_frame()
        start = perf_counter_ns()
        with np.errstate(all="ignore"):
            item = machine.advance()
        duration = 0
        if self.timer and isinstance(item, Action) and item.op:
            self.backend.synchronize()
            duration = perf_counter_ns() - start
        event = frame.last = self._event(_node(item), start, duration, track)
        machine.settle()
        return event

    def latest(self, machine: Machine) -> TraceEvent | None:
        """Return an event, without a duration, for the node that ran last; None when no node has run."""
        return None if machine.latest is None else self._event(_node(machine.latest), perf_counter_ns(), 0)

    def _event(self, item: Shown, start: int, duration: int, track: str = "entry") -> TraceEvent:
        node = item.place.node
        kind = type(node.kind).__name__
        texts = _texts(item)
        return TraceEvent(
            kind=KIND_OF_NODE.get(kind, kind),
            node_index=node.index,
            node_uuid=item.place.uuid,
            block_name=item.place.block,
            node_desc=texts.desc,
            op_name=item.op if isinstance(item, Action) else "",
            params=texts.params,
            output=texts.output,
            micros_parts=split_duration(duration),
            start_ns=start - self.origin_ns,
            track=track,
        )


def _node(item: Item) -> Shown:
    """Return the last single node of an item."""
    if isinstance(item, Segment):
        return item.actions[-1]
    if isinstance(item, Repeat):
        body = item.body.merged if item.inline else []
        return item if not body else _node(body[0])
    if isinstance(item, Action | Call | HandOver | Leave):
        return item
    raise TypeError(f"unknown item {type(item).__name__}")


def _texts(item: Shown) -> Description:
    if isinstance(item, Action):
        return item.describe()
    desc = item.place.desc
    if isinstance(item, Call):
        return Description(desc, (item.condition_name,) if item.condition_name else (), (item.taken,))
    if isinstance(item, Repeat):
        start, end = item.bounds
        return Description(desc, (f"{item.index.name}={start}..{end}",))
    if isinstance(item, HandOver):
        return Description(desc, item.names)
    return Description(desc, item.given, item.names)
