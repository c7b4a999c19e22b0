"""However consumers and ``entry`` take turns, a program has one result (runtime specification, sections 11 and 14).

Small programs are run under every order of their nodes: each node of ``entry`` and of every consumer waits for its
turn, and the choices are walked through depth first, until none is left.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import openinfer as oi
from openinfer.dsl import graph
from openinfer.errors import ExecutionError, OpenInferError
from openinfer.simulate import Executor, Simulator
from openinfer.simulate.consumers.exchange import Exchange
from openinfer.testing.waiting import limit_s
from openinfer_backend_cpu.backend import CpuBackend

ENTRY = "entry"
MOST_RUNS = 4_000


@dataclass
class Turns:
    """Lets one thread at a time run one node; which one, is read from ``choices`` and the first where they end.

    Attributes:
        taken: for every choice that came up, which was taken and among how many.
    """

    choices: list[int]
    taken: list[tuple[int, int]] = field(default_factory=list)
    waiting: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    alive: set[str] = field(default_factory=lambda: {ENTRY})
    joining: str | None = None
    running: str | None = ENTRY
    condition: threading.Condition = field(default_factory=threading.Condition)

    def wait(self, name: str) -> None:
        """Wait until it is the turn of ``name`` to run a node."""
        with self.condition:
            self.waiting.add(name)
            # What begins a consumer waits for it to wait.
            self.condition.notify_all()
            self._pass_on(name)
            assert self.condition.wait_for(lambda: self.running == name, timeout=limit_s(20))
            self.waiting.discard(name)

    def begin(self, name: str, work: Callable[[], object]) -> Callable[[], object]:
        """Start a consumer in a thread; return what waits for its end."""
        raised: list[OpenInferError] = []

        def run() -> None:
            self.wait(name)
            try:
                work()
            except OpenInferError as error:
                raised.append(error)
            self.end(name)

        self.alive.add(name)
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        with self.condition:
            assert self.condition.wait_for(lambda: name in self.waiting, timeout=limit_s(20))

        def join() -> None:
            self.join(name)
            thread.join(limit_s(20))
            if raised:
                raise raised[0]

        return join

    def end(self, name: str) -> None:
        with self.condition:
            self.ended.add(name)
            self.alive.discard(name)
            self._pass_on(name)

    def join(self, name: str) -> None:
        with self.condition:
            if name in self.ended:
                return
            self.joining = name
            self.waiting.add(ENTRY)
            self._pass_on(ENTRY)
            assert self.condition.wait_for(lambda: self.running == ENTRY, timeout=limit_s(20))
            self.waiting.discard(ENTRY)
            self.joining = None

    def _pass_on(self, name: str) -> None:
        """Choose who runs next, when the one that was running stops."""
        if self.running != name:
            return
        ready = sorted(self.waiting & self.alive)
        if self.joining is not None and self.joining not in self.ended:
            ready = [each for each in ready if each != ENTRY]
        number = self.choices[len(self.taken)] if len(self.taken) < len(self.choices) else 0
        self.taken.append((number, len(ready)))
        self.running = ready[number]
        self.condition.notify_all()


@dataclass
class Gate:
    """A node of a consumer that waits for its turn."""

    item: Any
    turns: Turns
    name: str

    def execute(self, machine: Any) -> None:
        self.turns.wait(self.name)
        self.item.execute(machine)


def every_order(run: Callable[[Turns], object]) -> Iterator[object]:
    """Yield what ``run`` returns under every order of turns."""
    choices: list[int] = []
    for _ in range(MOST_RUNS):
        turns = Turns(choices)
        yield run(turns)
        while turns.taken and turns.taken[-1][0] + 1 == turns.taken[-1][1]:
            turns.taken.pop()
        if not turns.taken:
            return
        number, _ = turns.taken.pop()
        choices = [taken for taken, _ in turns.taken] + [number + 1]
    pytest.fail(f"more than {MOST_RUNS} orders")


def simulator(source: str) -> Simulator:
    return Simulator(oi.Model.from_arrays({}), graph(source))


def stepped(turns: Turns, made: Simulator, inputs: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Executor:
    """Run one step of a program whose consumers and entry take turns, in an executor of its own."""
    executor = made.make_executor()
    for name, consumer in executor._steps.binding.consumers.consumers.items():
        assert consumer.parallel
        consumer.code.merged[:] = [Gate(item, turns, name) for item in consumer.code.items]
    names = iter(())

    def start(work: Callable[[], object]) -> Callable[[], object]:
        return turns.begin(next(names), work)

    begin = Exchange._start

    def named(self: Exchange, consumer: Any) -> None:
        nonlocal names
        names = iter((consumer.name,))
        begin(self, consumer)

    check = Exchange.check

    def checked(self: Exchange, place: Any) -> None:
        turns.wait(ENTRY)
        check(self, place)

    with monkeypatch.context() as patch:
        patch.setattr(Exchange, "_start", named)
        patch.setattr(Exchange, "check", checked)
        patch.setattr(executor._steps.binding.consumers.threads, "start", start)
        executor.step(**inputs)
    return executor


VARIABLES = """
dynamic { x: f32[2]; }
volatile { h: f32[2]; h2: f32[2]; out: f32[2]; out2: f32[2]; one: f32[2] @init(1.0); two: f32[2] @init(2.0); }
persistent { n: i32; }
"""

PROGRAMS = {
    "a writer and entry": (
        """
        block entry { transfer x >> h; yield h; op add(x, one) >> out; op mul(out, two) >> out; await h; return; }
        block writer { await h; op mul(h, two) >> h; op add(h, one) >> h; yield h; }
        """,
        {"h": [3, 5], "out": [4, 6]},
    ),
    "a writer concurrent with a reader": (
        """
        block entry { transfer x >> h; yield h; op add(x, one) >> out; await h; return; }
        block reader { await h; op add(h, one) >> h2; op add(h2, h) >> h2; yield h; }
        block writer { await h; op mul(h, two) >> h; yield h; }
        """,
        {"h": [2, 4], "h2": [3, 5], "out": [2, 3]},
    ),
    "two that write what each other waits for": (
        """
        block entry {
          transfer x >> h; transfer x >> h2; yield h, h2; await h; op add(h, one) >> out; await h2; return;
        }
        block first { await h, h2; op add(h, h2) >> h; yield h, h2; }
        block second { await h, h2; op mul(h, two) >> h2; cache.increment n; yield h, h2; }
        """,
        {"h": [2, 4], "h2": [2, 4], "out": [3, 5], "n": 1},
    ),
}


@pytest.mark.rule("runtime.consumers.6", "runtime.consumers.11", "runtime.determinism.1")
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_order_gives_the_same_values(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source, expected = PROGRAMS[name]
    made = simulator(VARIABLES + source)

    def run(turns: Turns) -> dict[str, Any]:
        executor = stepped(turns, made, {"x": [1, 2]}, monkeypatch)
        return {each: np.asarray(executor.fetch(each)).tolist() for each in expected}

    found = list(every_order(run))

    assert len(found) > 5
    assert all(values == expected for values in found)


@pytest.mark.rule("runtime.consumers.9")
def test_every_order_reports_the_same_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    source = (
        VARIABLES.replace("n: i32;", "n: i32; T(i): f32[2] @table @fixed(i=1);")
        + """
        block entry { transfer x >> h; yield h; op add(x, one) >> out; await h; return; }
        block bad { await h; cache.increment n; cache.write h >> T[n]; yield h; }
        block good { await h; op add(h, one) >> h2; yield h; }
    """
    )

    made = simulator(source)

    def run(turns: Turns) -> str:
        with pytest.raises(ExecutionError) as raised:
            stepped(turns, made, {"x": [1, 2]}, monkeypatch)
        return f"{raised.value.block} {raised.value}"

    found = set(every_order(run))

    assert len(found) == 1
    assert "bad" in found.pop()


@pytest.mark.parametrize("looking", [False, True])
def test_a_consumer_waits_for_its_own_backend_and_closes_it(looking: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Backends serve one thread each; what one has queued, only waiting for that one brings to an end."""
    waited: list[tuple[CpuBackend, str]] = []
    closed: list[CpuBackend] = []

    def synchronize(self: CpuBackend) -> None:
        waited.append((self, threading.current_thread().name))

    monkeypatch.setattr(CpuBackend, "synchronize", synchronize)
    monkeypatch.setattr(CpuBackend, "close", lambda self: closed.append(self))
    text = (
        VARIABLES
        + """
        block entry { transfer x >> h; yield h; op add(x, one) >> out; await h; return; }
        block only { await h; op add(h, one) >> h; op add(h, one) >> h; yield h; }
    """
    )
    traced = Simulator(oi.Model.from_arrays({}), graph(text), trace=True, timer=True, echo=False)
    with traced.make_executor() as executor:
        executor.insert(x=[1, 2])
        list(executor.iterate(consumers=True)) if looking else executor.step()
        own, entry = executor._steps.binding.consumers.consumers["only"].backend, executor._backend

    assert own is not entry
    assert [backend for backend, _ in waited].count(own) == 3
    threads = {backend: {name for each, name in waited if each is backend} for backend in (own, entry)}
    assert threads[entry] == {"MainThread"}
    assert len(threads[own]) == 1
    assert (threads[own] == {"MainThread"}) is looking
    assert set(closed) == {own, entry}


def test_consumers_of_one_growing_table_do_not_run_at_the_same_time() -> None:
    """Reading an entry that is not there makes it: two readers in threads of their own would disturb each other."""
    source = (
        VARIABLES.replace("n: i32;", "n: i32; T(i): f32[2] @table;")
        + """
        block entry { transfer x >> h; yield h; await h; return; }
        block first { await h; cache.read T[0] >> out; yield h; }
        block second { await h; cache.read T[1] >> out2; yield h; }
    """
    )
    executor = simulator(source).make_executor()

    assert [consumer.parallel for consumer in executor._steps.binding.consumers.consumers.values()] == [False, False]


def test_consumers_of_one_weight_table_may_run_at_the_same_time() -> None:
    source = (
        VARIABLES.replace("h2: f32[2];", 'h2: f32[2]; W(i): f32[2] @pattern("W.{i}");')
        + """
        block entry { transfer x >> h; yield h; await h; return; }
        block first { await h; op add(h, W[0]) >> out; yield h; }
        block second { await h; op add(h, W[0]) >> out2; yield h; }
    """
    )
    model = oi.Model.from_arrays({"W.0": np.array([10, 20], np.float32)})
    executor = Simulator(model, graph(source)).make_executor()
    executor.step(x=[1, 2])

    assert [consumer.parallel for consumer in executor._steps.binding.consumers.consumers.values()] == [True, True]
    assert executor.fetch("out").tolist() == executor.fetch("out2").tolist() == [11, 22]


@dataclass
class Meet:
    """A node that waits until others have come as far."""

    meeting: threading.Barrier

    def execute(self, machine: Any) -> None:
        del machine
        self.meeting.wait(limit_s(20))


@pytest.mark.rule("runtime.consumers.11")
def test_consumers_really_run_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both consumers and entry meet at a barrier, which none would pass alone."""
    meeting = threading.Barrier(3)
    source = (
        VARIABLES
        + """
        block entry { transfer x >> h; yield h; op add(x, one) >> out2; await h; return; }
        block first { await h; op add(h, one) >> h2; yield h; }
        block second { await h; op add(h, one) >> out; yield h; }
    """
    )
    executor = simulator(source).make_executor()
    for consumer in executor._steps.binding.consumers.consumers.values():
        consumer.code.merged.insert(0, Meet(meeting))
    started = threading.Event()
    check = Exchange.check

    def checked(self: Exchange, place: Any) -> None:
        if "add" in place.desc and not started.is_set():
            started.set()
            meeting.wait(limit_s(20))
        check(self, place)

    monkeypatch.setattr(Exchange, "check", checked)
    executor.step(x=[1, 2])

    assert not meeting.broken
    assert executor.fetch("h2").tolist() == executor.fetch("out").tolist() == executor.fetch("out2").tolist() == [2, 3]
