"""Which steps of a list may run later than where they are: past everything that touches no value of theirs."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openinfer.plan.accesses import members, walk
from openinfer.plan.failing import may_fail
from openinfer.plan.steps import BarrierStep, CallStep, ComputeStep, KernelStep, ReturnStep

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openinfer.plan.accesses import Accesses
    from openinfer.plan.steps import Step


@dataclass(frozen=True, slots=True)
class Entry:
    """A step in a list: what it reads and writes, which values are live after it, whether nothing may pass it."""

    step: Step
    after: int
    read: int
    written: int
    stops: bool

    @staticmethod
    def of(step: Step, after: int, accesses: Accesses) -> Entry:
        stops = any(_stops(inner) for inner in walk((step,)))
        return Entry(step, after, *accesses.of(step), stops)

    @property
    def stays(self) -> bool:
        """Whether it keeps its place among the other steps."""
        return isinstance(self.step, KernelStep | ComputeStep) and self.step.placement.no_reorder


def _stops(step: Step) -> bool:
    return isinstance(step, BarrierStep | ReturnStep) or (isinstance(step, CallStep) and step.on_thread)


class Passing:
    """A list of steps whose members are joined with later ones.

    Args:
        kept: values that live on between steps, as bits: a step that may fail does not pass their changes, which are
            not to happen if it fails.
    """

    def __init__(self, entries: Sequence[Entry], kept: int = 0) -> None:
        self._entries: list[Entry | None] = [*entries]
        self._readers: defaultdict[int, list[int]] = defaultdict(list)
        self._writers: defaultdict[int, list[int]] = defaultdict(list)
        self._stops = [at for at, entry in enumerate(entries) if entry.stops]
        self._changes = [at for at, entry in enumerate(entries) if entry.written & kept]
        self._stays = [at for at, entry in enumerate(entries) if entry.stays]
        for at, entry in enumerate(entries):
            self._note(at, entry)

    def __getitem__(self, position: int) -> Entry:
        entry = self._entries[position]
        if entry is None:
            raise IndexError(f"step {position} was joined with a later one")
        return entry

    def steps(self) -> tuple[Step, ...]:
        """Return the steps that are left."""
        return tuple(entry.step for entry in self._entries if entry is not None)

    def reader(self, position: int) -> int | str:
        """Return where the result of a step is read first, if the step could as well run there, else why it cannot.

        The reason is empty where nothing reads the result. Steps before ``position`` do not matter, so that they may
        have been joined with others.
        """
        first = self[position]
        readers = [at for value in members(first.written) if (at := _after(self._readers[value], position)) is not None]
        if not readers:
            return ""
        reader = min(readers)
        stop, stay = _after(self._stops, position), _after(self._stays, position)
        if stop is not None and stop <= reader:
            return "barrier or return before its reader"
        if (first.stays and reader > position + 1) or (stay is not None and stay < reader):
            return "no_reorder before its reader"
        change = _after(self._changes, position)
        if change is not None and change < reader and may_fail(first.step):
            return "a persistent variable changes before its reader"
        writes = (_after(self._writers[value], position) for value in members(first.written | first.read))
        if any(at is not None and at < reader for at in writes):
            return "an operand changes before its reader"
        return reader

    def exchange(self, position: int, step: Step) -> None:
        """Put a step that reads and writes the same in place of another one."""
        self._entries[position] = replace(self[position], step=step)

    def join(self, position: int, reader: int, joined: Entry) -> None:
        """Replace the step at ``reader`` by one that does the work of the step at ``position`` too."""
        for at in (position, reader):
            self._forget(at, self[at])
        if joined.stays and not self[reader].stays:
            insort(self._stays, reader)
        self._entries[position], self._entries[reader] = None, joined
        self._note(reader, joined)

    def _note(self, at: int, entry: Entry) -> None:
        for places, values in ((self._readers, entry.read), (self._writers, entry.written)):
            for value in members(values):
                insort(places[value], at)

    def _forget(self, at: int, entry: Entry) -> None:
        for places, values in ((self._readers, entry.read), (self._writers, entry.written)):
            for value in members(values):
                del places[value][bisect_left(places[value], at)]


def _after(positions: Sequence[int], position: int) -> int | None:
    """Return the first of some ascending positions after another one."""
    at = bisect_right(positions, position)
    return positions[at] if at < len(positions) else None
