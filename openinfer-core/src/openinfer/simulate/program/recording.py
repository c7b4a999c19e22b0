"""Records the nodes that a machine runs, and makes trace events of the records."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from openinfer.events import KIND_OF_NODE, TraceEvent, split_duration
from openinfer.simulate.devices.backend import TimedBackend
from openinfer.simulate.program.describe import Description
from openinfer.simulate.program.integers import values_of
from openinfer.simulate.program.items import Action, Call, HandOver, Leave, Repeat, Segment
from openinfer.simulate.program.machine import Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.events import Scope
    from openinfer.simulate.devices.backend import DeviceBackend
    from openinfer.simulate.program.items import Item
    from openinfer.simulate.program.machine import Happened, Machine

Shown: TypeAlias = Action | Call | HandOver | Repeat | Leave
"""Items that are one node."""


@dataclass(slots=True, eq=False)
class Recorder:
    """Keeps what machines note, and makes events of it when they are requested.

    Attributes:
        backend: that of ``entry``, which is waited for when operators are timed.
        timer: whether operators are timed.
        notes: what ran.
    """

    backend: DeviceBackend
    timer: bool
    origin_ns: int = field(default_factory=perf_counter_ns)
    notes: list[Happened] = field(default_factory=list["Happened"])
    _events: list[TraceEvent] = field(default_factory=list[TraceEvent])
    _shown: tuple[Shown, tuple[Any, ...], TraceEvent] | None = None

    def record(
        self, notes: list[Happened] | None = None, track: str = "entry", backend: DeviceBackend | None = None
    ) -> Record:
        """Return where a machine notes what it runs: in ``notes``, or what is kept.

        Args:
            backend: what a consumer works with; by default that of ``entry``.
        """
        kept = self.notes if notes is None else notes
        finish = _finishing(backend or self.backend)
        return Record(events=kept, timer=self.timer, finish=finish, track=track)

    def events(self) -> list[TraceEvent]:
        """Return the events of all that is kept."""
        self._events += [self._event(*note) for note in self.notes[len(self._events) :]]
        return self._events

    def last(self) -> TraceEvent:
        """Return the event of what ran last."""
        return self._event(*self.notes[-1])

    def clear(self) -> None:
        """Forget everything."""
        self.notes.clear()
        self._events.clear()

    def advance(self, machine: Machine, record: Record) -> TraceEvent:
        """Run one node, go on to the next, and return the event of the first."""
        frame = machine.block_frame()
        with np.errstate(all="ignore"):
            machine.advance()
        event = frame.last = self._event(*record.events[-1])
        machine.settle()
        return event

    def latest(self, machine: Machine) -> TraceEvent | None:
        """Return an event, without times, for the node that ran last; None when no node has run."""
        return None if machine.latest is None else self.event_of(machine.latest)

    def event_of(self, ran: Item) -> TraceEvent:
        """Return an event, without times, for the last node of an item: the same for as long as it says the same."""
        item = _inner(ran)
        values = _values(item)
        if self._shown is None or self._shown[0] is not item or self._shown[1] != values:
            self._shown = item, values, self._event(item, self.origin_ns, 0, values, "entry")
        return self._shown[2]

    def _event(
        self,
        noted: Item,
        start: int,
        duration: int,
        values: tuple[Any, ...],
        track: str,
        scope: Scope | None = None,
        turn: int | None = None,
        begun: int | None = None,
    ) -> TraceEvent:
        item = node_of(noted)
        node = item.place.node
        kind = (item.kind if isinstance(item, Action) else "") or type(node.kind).__name__
        texts = _texts(item, values)
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
            device_start_ns=None if begun is None else begun - self.origin_ns,
            track=track,
            scope=scope,
            turn=turn,
        )


def _finishing(backend: DeviceBackend) -> Callable[[int], tuple[int, int | None]]:
    """Return a function that waits for a device and returns nanoseconds, by its own clock if it has one.

    It then returns when the device started, too: as if the work had ended when the host saw its end.
    """
    if not isinstance(backend, TimedBackend):

        def by_host(start: int) -> tuple[int, None]:
            backend.synchronize()
            return perf_counter_ns() - start, None

        return by_host

    def by_device(start: int) -> tuple[int, int | None]:
        worked = backend.timed_synchronize()
        now = perf_counter_ns()
        return (now - start, None) if worked is None else (worked, max(now - worked, start))

    return by_device


def node_of(item: Item) -> Shown:
    """Return the last single node of an item."""
    if isinstance(item, Segment):
        return item.actions[-1]
    if isinstance(item, Action | Call | HandOver | Repeat | Leave):
        return item
    raise TypeError(f"unknown item {type(item).__name__}")


def _inner(item: Item) -> Shown:
    """Return the last single node of an item, or of the loop body that ran within it."""
    if isinstance(item, Repeat) and item.inline and item.body.merged:
        return node_of(item.body.merged[0])
    return node_of(item)


def _values(item: Shown) -> tuple[Any, ...]:
    """Return the values by which an item is described at this moment."""
    if isinstance(item, Action):
        return values_of(item.describe.watched)
    if isinstance(item, Call):
        return (item.taken,)
    return item.bounds if isinstance(item, Repeat) else ()


def _texts(item: Shown, values: tuple[Any, ...]) -> Description:
    if isinstance(item, Action):
        return item.describe.text(values)
    desc = item.place.desc
    if isinstance(item, Call):
        return Description(desc, (item.condition_name,) if item.condition_name else (), values)
    if isinstance(item, Repeat):
        start, end = values
        return Description(desc, (f"{item.index.name}={start}..{end}",))
    if isinstance(item, HandOver):
        return Description(desc, item.names)
    return Description(desc, item.given, item.names)
