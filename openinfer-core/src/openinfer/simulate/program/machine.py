"""The machine that runs a compiled program, with an explicit stack of frames, and the record of what it ran."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from openinfer.errors import DepthError
from openinfer.events import Scope
from openinfer.simulate.program.items import Action, Call, Repeat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from openinfer.simulate.program.failures import Place
    from openinfer.simulate.program.items import Code, Item
    from openinfer.simulate.state.memory import Memory

    Happened: TypeAlias = tuple["Item", int, int, tuple[object, ...], str, Scope | None, int | None, int | None]
    """An item that ran: start and duration in nanoseconds, values to describe it by, track, scope, its turn, and when
    the device started, where its clock was taken."""

MOST_FRAMES = 100_000
"""Deepest nesting of block calls and loops (``specification: runtime.control.9``)."""


@dataclass(slots=True, eq=False, kw_only=True)
class Record:
    """Where a machine notes what ran; texts are made of it later.

    Attributes:
        events: items with start and duration in nanoseconds, values to describe them by, and the track.
        timer: whether operators are timed.
        finish: waits for the device; returns nanoseconds of the work since a time of the host's clock, and when the
            device started, where its own clock was taken.
        track: ``"entry"`` or the name of a consumer block.
        scope: the run of a block or loop that items are part of.
        turn: the value of the index where that is a loop.
    """

    events: list[Happened]
    timer: bool
    finish: Callable[[int], tuple[int, int | None]]
    track: str = "entry"
    scope: Scope | None = None
    turn: int | None = None

    def add(self, item: Item, values: tuple[object, ...] = (), start: int | None = None) -> None:
        """Note an item that takes no time."""
        begun = perf_counter_ns() if start is None else start
        self.events.append((item, begun, 0, values, self.track, self.scope, self.turn, None))

    def enter_block(self, name: str) -> Scope:
        """Enter a run of a block."""
        self.scope, self.turn = Scope("block", name, self.scope, self.turn), None
        return self.scope

    def enter_loop(self, loop: Repeat, start: int) -> Scope:
        """Enter the first iteration of a loop."""
        self.scope, self.turn = Scope("loop", loop.name, self.scope, self.turn, loop.index.name), start
        return self.scope


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


class Exchange(Protocol):
    """The variables that ``entry`` hands over in one step; see `openinfer.simulate.consumers.exchange`."""

    def hand_over(self, names: Sequence[str], place: Place) -> None:
        """Carry out a ``yield``."""
        ...

    def take_back(self, names: Sequence[str]) -> None:
        """Carry out an ``await``."""
        ...

    def check(self, place: Place) -> None:
        """Check a node that is about to run, which may use what is out."""
        ...

    def finish(self) -> None:
        """Check that nothing is out at the end of a step."""
        ...

    def abandon(self) -> None:
        """Wait for every consumer of a step that has failed or was given up."""
        ...


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

    def enter_block(self, code: Code) -> None:
        """Begin a run of a block.

        Raises:
            DepthError: too many runs are open.
        """
        frame = self._open(Frame(self.items(code)))
        if self.record is not None:
            frame.scope = self.record.enter_block(code.block)

    def enter_loop(self, loop: Repeat, start: int, end: int) -> None:
        """Begin the first iteration of a loop.

        Raises:
            DepthError: too many runs are open.
        """
        frame = self._open(Frame(self.items(loop.body), loop, start, end))
        if self.record is not None:
            frame.scope = self.record.enter_loop(loop, start)

    def _open(self, frame: Frame) -> Frame:
        if len(self.frames) >= MOST_FRAMES:
            raise DepthError(f"blocks and loops are nested more than {MOST_FRAMES} deep: does a block call itself?")
        self.frames.append(frame)
        return frame

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
        """Advance to the next item: leave finished blocks and loops, and begin the next iterations of loops."""
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
