"""Variables handed over between ``entry`` and consumer blocks (runtime specification, section 11).

A consumer runs when the last variable that it waits for goes out, and ``entry`` goes on afterwards. Nobody can tell
this from running at the same time: variables that are out have copies where readers and a writer share them, and of all
others one block at most may write what another uses until it is awaited.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from openinfer.errors import DeadlockError, OpenInferError, RaceError
from openinfer.ir.concurrency import Consumer, Uses, consumers, handed_over, is_concurrent
from openinfer.ir.uses import reads, writes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openinfer.ir.graph import Graph
    from openinfer.simulate.failures import Place
    from openinfer.simulate.memory import Memory, Saved
    from openinfer.simulate.program import Happened

    RunBlock: TypeAlias = Callable[[str, list[Happened]], None]
    """Runs a block by name and adds its events."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """What is known of handing over before a program runs.

    Attributes:
        consumers: the blocks that wait, by name.
        copied: variables that one consumer writes and others wait for too.
    """

    graph: Graph
    consumers: tuple[Consumer, ...]
    copied: frozenset[str]


def sharing(graph: Graph) -> Sharing | None:
    """Return how a graph hands variables over; None when it does not."""
    if not is_concurrent(graph):
        return None
    found = consumers(graph)
    waiting = [name for each in found for name in each.requirements]
    written = frozenset(name for each in found for name in each.requirements & each.uses.writes)
    return Sharing(graph, found, frozenset(name for name in written if waiting.count(name) > 1))


@dataclass(slots=True)
class _Run:
    """A consumer that has started and is not awaited yet."""

    consumer: Consumer
    events: list[Happened] = field(default_factory=list["Happened"])
    error: OpenInferError | None = None


class Exchange:
    """The variables that are out and the consumers that run, in one step."""

    def __init__(self, sharing: Sharing, memory: Memory, run_block: RunBlock, record: list[Happened]) -> None:
        self._sharing = sharing
        self._memory = memory
        self._run_block = run_block
        self._record = record
        self._out: dict[str, Place] = {}
        self._fresh: dict[str, set[str]] = {each.name: set() for each in sharing.consumers}
        self._runs: list[_Run] = []
        self._frozen: dict[str, Saved] = {}
        self._merged: dict[str, Saved] = {}
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
            if name in self._sharing.copied:
                self._frozen[name] = self._memory.save(name)
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
        joined = [run for run in self._runs if run.consumer.requirements.intersection(names)]
        joined.sort(key=lambda run: run.consumer.name)
        self._runs = [run for run in self._runs if run not in joined]
        for run in joined:
            self._record += run.events
        for run in joined:
            if run.error is not None:
                raise run.error
        for name in names:
            del self._out[name]
            self._frozen.pop(name, None)
            if name in self._merged:
                self._memory.load(name, self._merged.pop(name))
            for fresh in self._fresh.values():
                fresh.discard(name)

    def check(self, place: Place) -> None:
        """Check a node of ``entry`` that is about to run.

        Raises:
            RaceError: it uses a variable that is out, or one that a consumer writes, or writes one that it uses.
        """
        if not self._out:
            return
        used = self._uses_of(place)
        for name in sorted((used.reads | used.writes).intersection(self._out)):
            raise RaceError(f"{place.desc}: `{name}` is out: it is used between its yield and its await")
        for run in self._runs:
            for name in sorted(run.consumer.uses.races_with(used)):
                message = f"`{name}` is used while consumer `{run.consumer.name}` uses it, and one of them writes it"
                raise RaceError(f"{place.desc}: {message}: await `{min(run.consumer.requirements)}` before")

    def finish(self) -> None:
        """Check that nothing is out at the end of a step.

        Raises:
            DeadlockError: a variable is.
        """
        for name, place in self._out.items():
            with place:
                raise DeadlockError(f"`{name}` is still out at the end of the step: await it before")

    def _start(self, consumer: Consumer) -> None:
        for other in self._runs:
            for name in sorted(consumer.races_with(other.consumer)):
                message = f"consumers `{other.consumer.name}` and `{consumer.name}` run at the same time"
                raise RaceError(f"{message} and race on `{name}`: only one may use what one of them writes")
        run = _Run(consumer)
        self._runs.append(run)
        copied = sorted(consumer.requirements & self._sharing.copied)
        for name in copied:
            self._memory.load(name, self._frozen[name])
        try:
            self._run_block(consumer.name, run.events)
        except OpenInferError as error:
            run.error = error
        for name in copied:
            if name in consumer.uses.writes:
                self._merged[name] = self._memory.save(name)

    def _uses_of(self, place: Place) -> Uses:
        node = place.node
        found = self._uses.get(node.index)
        if found is None:
            found = self._uses[node.index] = Uses(reads(node), writes(node))
        return found
