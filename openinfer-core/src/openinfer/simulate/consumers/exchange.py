"""Variables handed over between ``entry`` and consumer blocks (``specification: runtime.consumers``).

A consumer starts when the last variable that it waits for goes out, and has ended when ``entry`` takes one of them
back. When it runs in between is unknown: variables that are out have copies where readers and a writer share them,
and of all others one block at most may write what another uses until it is awaited.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from openinfer.errors import DeadlockError, OpenInferError, RaceError
from openinfer.ir.concurrency import Consumer, Uses, handed_over
from openinfer.ir.uses import reads, writes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.simulate.consumers.bound import BoundConsumer
    from openinfer.simulate.consumers.sharing import Sharing
    from openinfer.simulate.program.failures import Place
    from openinfer.simulate.program.machine import Happened
    from openinfer.simulate.state.memory import Memory

    Join: TypeAlias = Callable[[], object]
    """Waits for a consumer to end; raises what it raised."""

    Start: TypeAlias = Callable[[BoundConsumer, list[Happened]], Join]
    """Lets a consumer run, now or later, here or in a thread; it adds its events to the list."""


@dataclass(slots=True)
class _Run:
    """A consumer that has started and is not awaited yet."""

    bound: BoundConsumer
    join: Join
    events: list[Happened] = field(default_factory=list["Happened"])


class Exchange:
    """The variables that are handed over and the consumers that run, in one step."""

    def __init__(
        self,
        sharing: Sharing,
        memory: Memory,
        consumers: Mapping[str, BoundConsumer],
        start: Start,
        record: list[Happened],
    ) -> None:
        self._sharing = sharing
        self._memory = memory
        self._consumers = consumers
        self._begin = start
        self._record = record
        self._out: dict[str, Place] = {}
        self._fresh: dict[str, set[str]] = {consumer.name: set() for consumer in sharing.consumers}
        self._runs: list[_Run] = []
        self._written: dict[str, Memory] = {}
        self._uses: dict[int, Uses] = {}

    def hand_over(self, names: Sequence[str], place: Place) -> None:
        """Carry out a yield of ``entry``: start every consumer for which everything is out.

        Raises:
            DeadlockError: a variable is out already.
            RaceError: two consumers would race.
        """
        going = handed_over(self._sharing.graph, names)
        for name in going:
            if name in self._out:
                raise DeadlockError(f"`{name}` is yielded again before it was awaited")
        for name in going:
            self._out[name] = place
        for consumer in self._sharing.consumers:
            fresh = self._fresh[consumer.name]
            fresh |= consumer.requirements.intersection(going)
            if consumer.requirements <= fresh:
                fresh.clear()
                self._start(consumer)

    def take_back(self, names: Sequence[str]) -> None:
        """Carry out an await of ``entry``: join the consumers of these variables and merge what they wrote.

        Raises:
            DeadlockError: a variable is not out.
            OpenInferError: a consumer failed; of several, the first by name.
        """
        for name in names:
            if name not in self._out:
                raise DeadlockError(f"`{name}` is awaited, but it is not out")
        joined = [run for run in self._runs if run.bound.consumer.requirements.intersection(names)]
        joined.sort(key=lambda run: run.bound.consumer.name)
        self._join(joined)
        for name in names:
            del self._out[name]
            if name in self._written:
                self._memory.load(name, self._written.pop(name).save(name))
            for fresh in self._fresh.values():
                fresh.discard(name)

    def _join(self, runs: Sequence[_Run]) -> None:
        self._runs = [run for run in self._runs if run not in runs]
        failures = [error for run in runs if (error := _failure(run.join)) is not None]
        for run in runs:
            self._record += run.events
        if failures:
            raise failures[0]
        for run in runs:
            written = run.bound.memory.copied & run.bound.consumer.uses.writes
            self._written |= dict.fromkeys(written, run.bound.memory)

    def check(self, place: Place) -> None:
        """Check a node of ``entry`` that is about to run.

        Raises:
            RaceError: it uses a variable that is yielded, or one that a consumer writes, or it writes one that a
                consumer uses.
        """
        if not self._out:
            return
        used = self._uses_of(place)
        for name in sorted((used.reads | used.writes).intersection(self._out)):
            raise RaceError(f"{place.desc}: `{name}` is out: it is used between its yield and its await")
        for run in self._runs:
            consumer = run.bound.consumer
            for name in sorted(consumer.uses.races_with(used)):
                message = f"`{name}` is used while consumer `{consumer.name}` uses it, and one of them writes it"
                raise RaceError(f"{place.desc}: {message}: await `{min(consumer.requirements)}` before")

    def finish(self) -> None:
        """Check that nothing is out at the end of a step.

        Raises:
            DeadlockError: a variable is.
        """
        for name, place in self._out.items():
            with place:
                raise DeadlockError(f"`{name}` is still out at the end of the step: await it before")

    def abandon(self) -> None:
        """Wait for every consumer of a step that has failed or was given up; what they raise is ignored."""
        for run in self._runs:
            _failure(run.join)
        self._runs.clear()

    def _start(self, consumer: Consumer) -> None:
        for run in self._runs:
            other = run.bound.consumer
            for name in sorted(consumer.races_with(other)):
                message = f"consumers `{other.name}` and `{consumer.name}` run at the same time"
                raise RaceError(f"{message} and race on `{name}`: only one may use what one of them writes")
        bound, events = self._consumers[consumer.name], list["Happened"]()
        bound.memory.available.difference_update(bound.memory.private)
        for name in sorted(bound.memory.copied):
            bound.memory.load(name, self._memory.save(name))
        self._runs.append(_Run(bound, self._begin(bound, events), events))

    def _uses_of(self, place: Place) -> Uses:
        node = place.node
        uses = self._uses.get(node.index)
        if uses is None:
            uses = self._uses[node.index] = Uses(reads(node), writes(node))
        return uses


def _failure(join: Join) -> OpenInferError | None:
    try:
        join()
    except OpenInferError as error:
        return error
    return None
