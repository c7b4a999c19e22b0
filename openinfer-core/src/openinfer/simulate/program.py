"""A compiled program: blocks as flat lists of items, run with an explicit stack of frames.

An item is one node, or a `Segment`: a run of nodes that each come down to one bound call. Programs are run either node
by node, so that every one can be seen, or with segments; the values are the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from openinfer.errors import DeadlockError, DepthError
from openinfer.events import Scope
from openinfer.simulate.failures import Place, unset
from openinfer.simulate.integers import value_of, values_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from openinfer.simulate.backend import BoundCall
    from openinfer.simulate.describe import Describe
    from openinfer.simulate.exchange import Exchange
    from openinfer.simulate.integers import IntReader, LoopIndex
    from openinfer.simulate.memory import Memory

    Happened: TypeAlias = tuple["Item", int, int, tuple[object, ...], str, Scope | None, int | None]
    """An item that ran: start and duration in nanoseconds, values to describe it by, track, scope, its turn."""

MOST_FRAMES = 100_000
"""Deepest nesting of block calls and loops (runtime specification, section 6)."""


class Item(Protocol):
    """Something that a frame runs."""

    def execute(self, machine: Machine) -> None: ...


@dataclass(slots=True, eq=False, kw_only=True)
class Record:
    """Where a machine notes what ran; texts are made of it later.

    Attributes:
        events: items with start and duration in nanoseconds, values to describe them by, and the track.
        timer: whether operators are timed.
        synchronize: waits for the device, so that times are those of the work.
        track: ``"entry"`` or the name of a consumer block.
        scope: the run of a block or loop that items are part of.
        turn: the value of the index where that is a loop.
    """

    events: list[Happened]
    timer: bool
    synchronize: BoundCall
    track: str = "entry"
    scope: Scope | None = None
    turn: int | None = None

    def add(self, item: Item, values: tuple[object, ...] = (), start: int | None = None) -> None:
        """Note an item that takes no time."""
        begun = perf_counter_ns() if start is None else start
        self.events.append((item, begun, 0, values, self.track, self.scope, self.turn))

    def enter_block(self, name: str) -> Scope:
        """Go into a run of a block."""
        self.scope, self.turn = Scope("block", name, self.scope, self.turn), None
        return self.scope

    def enter_loop(self, loop: Repeat, start: int) -> Scope:
        """Go into the first turn of a run of a loop."""
        self.scope, self.turn = Scope("loop", loop.name, self.scope, self.turn, loop.index.name), start
        return self.scope


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
        duration = 0
        if record.timer and self.op:
            record.synchronize()
            duration = perf_counter_ns() - start
        watched = self.describe.watched
        values = values_of(watched) if watched else ()
        record.events.append((self, start, duration, values, record.track, record.scope, record.turn))


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
        self._noted = tuple((each, each.call, bool(each.op), each.describe.watched) for each in self.actions)
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
        timer, synchronize = record.timer, record.synchronize
        action = None
        try:
            for action, call, is_op, watched in self._noted:
                start = perf_counter_ns()
                call()
                duration = 0
                if timer and is_op:
                    synchronize()
                    duration = perf_counter_ns() - start
                append((action, start, duration, values_of(watched) if watched else (), track, scope, turn))
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
            machine.push(Frame(machine.items(chosen)), chosen.block)


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
            machine.push(Frame(items, self, start, end), self.body.block)
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
    """A yield or await of ``entry``."""

    place: Place
    names: tuple[str, ...]
    is_yield: bool

    def execute(self, machine: Machine) -> None:
        exchange, start = machine.exchange, perf_counter_ns()
        with self.place:
            if exchange is None:
                raise DeadlockError("only entry hands variables over")
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


@dataclass(slots=True, eq=False)
class Frame:
    """A run of a block, or of a loop of one.

    Attributes:
        last: for whoever watches: what the block did last.
        scope: the run as events have it, where they are noted.
    """

    items: list[Item]
    loop: Repeat | None = None
    index: int = 0
    end: int = 0
    position: int = 0
    last: Any = None
    scope: Scope | None = None


class Machine:
    """Runs one step.

    Attributes:
        frames: runs of blocks and loops that have not ended, outermost first; empty when the step is over.
        ended: runs of blocks that ended with the latest item.
        exchange: for ``entry`` of a program that hands variables over.
        record: where to note what ran.
        latest: the item that ran last.
        returned: names in the return that ended the step.
    """

    def __init__(
        self,
        memory: Memory,
        entry: Code,
        *,
        merged: bool,
        exchange: Exchange | None = None,
        record: Record | None = None,
    ) -> None:
        self.memory = memory
        self.exchange = exchange
        self.record = record
        self.merged = merged
        self.returned: tuple[str, ...] = ()
        self.latest: Item | None = None
        self.ended: list[Frame] = []
        self.frames: list[Frame] = [Frame(self.items(entry))]
        if record is not None:
            record.scope = record.turn = None
            self.frames[0].scope = record.enter_block(entry.block)
        self.settle()

    def items(self, code: Code) -> list[Item]:
        """Return the items to run for a block or loop body."""
        return code.merged if self.merged else code.items

    def run(self) -> None:
        """Run to the end of the step."""
        while self.frames:
            self.advance()
            self.settle()

    def advance(self) -> Item:
        """Run one item and return it; `settle` has to follow."""
        self.ended.clear()
        frame = self.frames[-1]
        item = self.latest = frame.items[frame.position]
        frame.position += 1
        if self.exchange is not None and isinstance(item, Action | Call | Repeat):
            with item.place:
                self.exchange.check(item.place)
        item.execute(self)
        return item

    def finish(self) -> None:
        """Check that the step may end.

        Raises:
            DeadlockError: variables are still out.
        """
        if self.exchange is not None:
            self.exchange.finish()

    def push(self, frame: Frame, block: str) -> None:
        """Enter a block, or a loop of one.

        Raises:
            DepthError: too many are open.
        """
        if len(self.frames) >= MOST_FRAMES:
            raise DepthError(f"blocks and loops are nested more than {MOST_FRAMES} deep: does a block call itself?")
        self.frames.append(frame)
        if self.record is not None:
            record, loop = self.record, frame.loop
            frame.scope = record.enter_block(block) if loop is None else record.enter_loop(loop, frame.index)

    def leave(self) -> None:
        """Leave the innermost block; the loop indices of the one that called it come back."""
        frame = self.frames.pop()
        while frame.loop is not None:
            frame = self.frames.pop()
        self.ended.append(frame)
        self._back()
        for outer in reversed(self.frames):
            if outer.loop is None:
                break
            outer.loop.index.value = outer.index

    def block_frame(self) -> Frame:
        """Return the run of the innermost block."""
        return next(frame for frame in reversed(self.frames) if frame.loop is None)

    def settle(self) -> None:
        """Go on to the next item: leave what has come to its end, and begin the next turns of loops."""
        while self.frames:
            frame = self.frames[-1]
            if frame.position < len(frame.items):
                return
            if frame.loop is None:
                self.leave()
            elif frame.index + 1 < frame.end:
                frame.index += 1
                frame.position = 0
                frame.loop.index.value = frame.index
                if self.record is not None:
                    self.record.turn = frame.index
            else:
                self.frames.pop()
                self._back()

    def _back(self) -> None:
        if self.record is not None and self.frames:
            frame = self.frames[-1]
            self.record.scope, self.record.turn = frame.scope, None if frame.loop is None else frame.index
