"""A compiled program: blocks as flat lists of items, which a `Machine` runs.

An item is one node, or a `Segment`: a run of nodes that each come down to one bound call. Programs are run either node
by node, so that every one can be seen, or with segments; the values are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from time import perf_counter_ns
from typing import TYPE_CHECKING, Protocol

from openinfer.errors import DeadlockError
from openinfer.simulate.program.failures import Place
from openinfer.simulate.program.integers import value_of, values_of
from openinfer.simulate.state.memory import unset

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.bound_calls import BoundCall
    from openinfer.simulate.program.describe import Describe
    from openinfer.simulate.program.integers import IntReader, LoopIndex
    from openinfer.simulate.program.machine import Machine, Record


class Item(Protocol):
    """Something that a frame runs."""

    def execute(self, machine: Machine) -> None: ...


@dataclass(slots=True, eq=False, kw_only=True)
class Action:
    """A node whose work is one call.

    Attributes:
        reads: variables that may be absent and that the node needs.
        writes: variables that may be absent before the node and are there after it.
        op: canonical name of the operator; ``""`` for other nodes.
        kind: kind of its event where that is not the kind of the node.
    """

    place: Place
    call: BoundCall
    describe: Describe
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    op: str = ""
    kind: str = ""

    def execute(self, machine: Machine) -> None:
        available = machine.memory.available
        with self.place:
            if not self.reads <= available:
                raise unset(machine.memory, self.reads - available)
            if machine.record is None:
                self.call()
            else:
                self.run_recorded(machine.record)
        available.update(self.writes)

    def run_recorded(self, record: Record) -> None:
        """Make the call and note it."""
        start = perf_counter_ns()
        self.call()
        duration, begun = 0, None
        if record.timer and self.op:
            duration, begun = record.finish(start)
        watched = self.describe.watched
        values = values_of(watched) if watched else ()
        record.events.append((self, start, duration, values, record.track, record.scope, record.turn, begun))


@dataclass(slots=True, eq=False)
class Segment:
    """Actions that run one after the other, whatever happens."""

    actions: tuple[Action, ...]
    calls: tuple[BoundCall, ...] = field(init=False)
    reads: frozenset[str] = field(init=False)
    writes: frozenset[str] = field(init=False)
    _noted: tuple[tuple[Action, BoundCall, bool, tuple[IntReader, ...]], ...] = field(init=False)

    def __post_init__(self) -> None:
        self.calls = tuple(action.call for action in self.actions)
        self._noted = tuple((action, action.call, bool(action.op), action.describe.watched) for action in self.actions)
        reads: set[str] = set()
        writes: set[str] = set()
        for action in self.actions:
            reads |= action.reads - writes
            writes |= action.writes
        self.reads, self.writes = frozenset(reads), frozenset(writes)

    def execute(self, machine: Machine) -> None:
        if not self.reads <= machine.memory.available:
            for action in self.actions:
                action.execute(machine)
            return
        if machine.record is None:
            self.run()
        else:
            self.run_recorded(machine.record)
        machine.memory.available.update(self.writes)

    def run_recorded(self, record: Record) -> None:
        """Make the calls as `run` does, and note each."""
        append, track, scope, turn = record.events.append, record.track, record.scope, record.turn
        timer, finish = record.timer, record.finish
        action = None
        try:
            for action, call, is_op, watched in self._noted:
                start = perf_counter_ns()
                call()
                duration, begun = 0, None
                if timer and is_op:
                    duration, begun = finish(start)
                append((action, start, duration, values_of(watched) if watched else (), track, scope, turn, begun))
        except Exception:
            with (action or self.actions[0]).place:
                raise

    def run(self) -> None:
        """Make the calls; what the actions need must be there."""
        call = None
        try:
            for call in self.calls:
                call()
        except Exception:
            with self._place_of(call):
                raise

    def run_turns(self, index: LoopIndex, start: int, end: int, record: Record | None) -> None:
        """Make the calls once for every value of a loop index."""
        if record is not None:
            for value in range(start, end):
                index.value = record.turn = value
                self.run_recorded(record)
            return
        call = None
        try:
            for value in range(start, end):
                index.value = value
                for call in self.calls:
                    call()
        except Exception:
            with self._place_of(call):
                raise

    def _place_of(self, call: BoundCall | None) -> Place:
        return next(action.place for action in self.actions if action.call is call)


@dataclass(slots=True, eq=False)
class Code:
    """The items of a block or loop body, node by node and merged into segments."""

    block: str
    items: list[Item] = field(default_factory=list[Item])
    merged: list[Item] = field(default_factory=list[Item])

    def merge(self) -> None:
        """Fill `merged` from `items`."""
        for is_action, group in groupby(self.items, lambda item: isinstance(item, Action)):
            items = list(group)
            if is_action:
                self.merged.append(Segment(tuple(item for item in items if isinstance(item, Action))))
            else:
                self.merged += items


@dataclass(slots=True, eq=False, kw_only=True)
class Call:
    """A branch: calls one of two blocks, or the only one when there is no condition. ``taken`` is the last choice."""

    place: Place
    condition: Callable[[], bool] | None
    reads: frozenset[str]
    then: Code
    otherwise: Code
    condition_name: str = ""
    taken: str = ""

    def execute(self, machine: Machine) -> None:
        available = machine.memory.available
        with self.place:
            if not self.reads <= available:
                raise unset(machine.memory, self.reads - available)
            chosen = self.then if self.condition is None or self.condition() else self.otherwise
            self.taken = chosen.block
            if machine.record is not None:
                machine.record.add(self, (self.taken,))
            machine.enter_block(chosen)


@dataclass(slots=True, eq=False, kw_only=True)
class Repeat:
    """A loop: bounds are read once; the index counts from start up to, not including, end.

    Attributes:
        name: name of the loop in the program.
        bounds: what they were the last time.
        inline: whether the body ran within the loop's own item the last time.
    """

    place: Place
    index: LoopIndex
    start: int | IntReader
    end: int | IntReader
    reads: frozenset[str]
    body: Code
    name: str = ""
    bounds: tuple[int, int] = (0, 0)
    inline: bool = False

    def execute(self, machine: Machine) -> None:
        available = machine.memory.available
        with self.place:
            if not self.reads <= available:
                raise unset(machine.memory, self.reads - available)
            start, end = self.bounds = value_of(self.start), value_of(self.end)
            self.inline = False
            if machine.record is not None:
                machine.record.add(self, self.bounds)
            if start < end and self.body.items:
                self._enter(machine, start, end)

    def _enter(self, machine: Machine, start: int, end: int) -> None:
        self.index.value = start
        items = machine.items(self.body)
        only = items[0] if len(items) == 1 else None
        self.inline = isinstance(only, Segment)
        if not isinstance(only, Segment):
            machine.enter_loop(self, start, end)
            return
        record = machine.record
        if record is not None:
            around = record.scope, record.turn
            record.enter_loop(self, start)
            self._run_inline(machine, only, start, end)
            record.scope, record.turn = around
        else:
            self._run_inline(machine, only, start, end)

    def _run_inline(self, machine: Machine, body: Segment, start: int, end: int) -> None:
        body.execute(machine)
        body.run_turns(self.index, start + 1, end, machine.record)


@dataclass(slots=True, eq=False, kw_only=True)
class HandOver:
    """A yield or await of ``entry``.

    Attributes:
        before: makes sure that no earlier statement has failed: others see what happens from here on.
    """

    place: Place
    names: tuple[str, ...]
    is_yield: bool
    before: BoundCall

    def execute(self, machine: Machine) -> None:
        exchange, start = machine.exchange, perf_counter_ns()
        with self.place:
            if exchange is None:
                raise DeadlockError("only entry hands variables over")
            self.before()
            if self.is_yield:
                exchange.hand_over(self.names, self.place)
            else:
                exchange.take_back(self.names)
        if machine.record is not None:
            machine.record.add(self, start=start)


@dataclass(slots=True, eq=False, kw_only=True)
class Leave:
    """A return, or a yield that ends a block: leaves the block, also from inside its loops.

    Attributes:
        names: results that a return names.
        given: variables that a yield gives back.
    """

    place: Place
    names: tuple[str, ...] = ()
    given: tuple[str, ...] = ()

    def execute(self, machine: Machine) -> None:
        if machine.record is not None:
            machine.record.add(self)
        machine.leave()
        if not machine.frames:
            machine.returned = self.names
