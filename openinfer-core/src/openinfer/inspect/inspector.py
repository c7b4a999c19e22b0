"""A step under inspection: run it statement by statement, to breakpoints, and see what changes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from openinfer.boundary import public_methods
from openinfer.errors import ExecutionError, StepStateError
from openinfer.inspect.breakpoints import (
    BlockBreakpoint,
    LineBreakpoint,
    OperatorBreakpoint,
    check_breakpoint,
    check_names,
)
from openinfer.inspect.evaluation import Values
from openinfer.inspect.hits import Hit, ValueBreakpoints
from openinfer.inspect.position import Level, indices_around, is_transfer, levels, loop_indices, upcoming
from openinfer.inspect.watches import Change, Watch, Watched
from openinfer.ir.nodes import Op
from openinfer.ir.uses import writes
from openinfer.simulate.execute.touched import may_change_anything
from openinfer.simulate.program.failures import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

    from openinfer.events import TraceEvent
    from openinfer.inspect.breakpoints import Breakpoint
    from openinfer.ir.nodes import Node
    from openinfer.simulate.execute.executor import Executor
    from openinfer.simulate.execute.node_run import NodeRun
    from openinfer.simulate.program.machine import Frame

MOST_CHANGES = 1000
"""Changes of watch expressions that are kept from one stop to the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Where an inspected step is.

    Attributes:
        event: the statement that has run last; None at the beginning.
        node: that statement in the graph.
        next: the statement that runs next; None when the step is over.
        hits: breakpoints that made it stop.
        changes: watch expressions that have changed since the last stop, in order; the last `MOST_CHANGES` of them.
        interrupted: whether `Inspector.interrupt` made it stop.
        failure: the error with which that statement ended its consumer block; it is raised where ``entry`` awaits it.
    """

    event: TraceEvent | None
    node: Node | None
    next: Place | None
    hits: tuple[Hit, ...] = ()
    changes: tuple[Change, ...] = ()
    interrupted: bool = False
    failure: Exception | None = None

    @property
    def ended(self) -> bool:
        """Whether the step is over."""
        return self.next is None


@public_methods
class Inspector:
    """Drives an executor statement by statement. Breakpoints that nobody sets cost nothing.

    Consumer blocks run one by one after the ``yield`` of ``entry`` that starts them, as blocks do after the
    branch that calls them. Values in them are those that they see.

    Args:
        executor: what to run; its steps are begun here, not elsewhere.
    """

    def __init__(
        self, executor: Executor, breakpoints: Iterable[Breakpoint] = (), watches: Iterable[Watch | str] = ()
    ) -> None:
        self.executor = executor
        self._indices: Callable[[], Mapping[str, int]] = self._indices_here
        self.values = Values(executor, lambda: self._indices())
        self._nodes = {node.index: node for _, node in executor.program.graph.nodes()}
        self._breakpoints = ValueBreakpoints(executor, self.values, lambda: self._indices())
        self._watches: dict[int, Watched] = {}
        self._numbered = 0
        self._runs: Generator[NodeRun] | None = None
        self._event: TraceEvent | None = None
        self._failure: Exception | None = None
        self._changes: deque[Change] = deque(maxlen=MOST_CHANGES)
        self._interrupted = False
        for each in breakpoints:
            self.add(each)
        for each in watches:
            self.watch(each)

    def __repr__(self) -> str:
        return f"<Inspector of {self.executor!r}>"

    # Breakpoints and watches

    @property
    def breakpoints(self) -> dict[int, Breakpoint]:
        """The breakpoints by number."""
        return dict(self._breakpoints.known)

    @property
    def watches(self) -> dict[int, tuple[Watch, str]]:
        """The watch expressions by number, with what they are worth."""
        return {number: (each.watch, each.shown) for number, each in self._watches.items()}

    def add(self, breakpoint_: Breakpoint) -> int:
        """Stop at a breakpoint from here on; return its number.

        Raises:
            ExecutionError: ``bad-breakpoint`` or ``unknown-variable``: the program cannot come to it.
        """
        check_breakpoint(breakpoint_, self.executor.program)
        self._numbered += 1
        self._breakpoints.known[self._numbered] = breakpoint_
        return self._numbered

    def watch(self, watch: Watch | str) -> int:
        """Report changes of an expression from here on; return the number of the watch.

        Raises:
            ExecutionError: ``bad-condition`` or ``unknown-variable``.
        """
        watched = Watched(Watch(watch) if isinstance(watch, str) else watch, self.values)
        check_names(watched.expression, self.executor.program)
        self._numbered += 1
        self._watches[self._numbered] = watched
        return self._numbered

    def remove(self, number: int) -> None:
        """Forget a breakpoint or watch expression.

        Raises:
            ExecutionError: ``bad-breakpoint``, there is none of that number.
        """
        if self._breakpoints.forget(number) is None and self._watches.pop(number, None) is None:
            known = ", ".join(map(str, sorted([*self._breakpoints.known, *self._watches]))) or "none"
            message = f"no breakpoint or watch has number {number}: there are {known}"
            raise ExecutionError(message, code="bad-breakpoint")

    # Running

    @property
    def is_running(self) -> bool:
        """Whether a step has begun and is not over."""
        return self._runs is not None

    def begin(self, **inputs: Any) -> Stop:
        """Insert values and begin a step: stop before its first statement.

        Raises:
            ExecutionError: a value does not fit.
            StepStateError: a step is running.
        """
        if self._runs is not None:
            raise StepStateError("a step is running: let it end before the next one begins")
        self.executor.insert(inputs)
        self._runs = self._begun()
        self._event = self._failure = None
        self._look(lambda _: True)
        self._breakpoints.begin()
        first = self._first()
        if first is None:
            list(self._runs)
            self._runs = None
        return self._stop(self._here(first))

    def step(self, count: int = 1) -> Stop:
        """Run statements, ``count`` of them unless a breakpoint comes first.

        Raises:
            ExecutionError: a statement failed, and with it the step.
            StepStateError: no step is running.
        """
        left = count

        def enough() -> bool:
            nonlocal left
            left -= 1
            return left <= 0

        return self._run(enough)

    def next(self) -> Stop:
        """Run a statement: a branch or yield with the blocks that it calls or starts, a loop with all its turns."""
        # Before the first statement of a step there are no frames, not even that of entry.
        depth = max(len(self._frames()), 1)

        def enough() -> bool:
            frames = self.executor.frames
            return len(frames) <= depth and not (frames and self._is_within(upcoming(frames)))

        return self._run(enough)

    def turn(self) -> Stop:
        """Run to the next iteration of the innermost loop, or past its end.

        Raises:
            StepStateError: no loop is running in this block.
        """
        frames = self._frames()
        if not frames or frames[-1].loop is None:
            raise StepStateError("no loop is running in this block: there is no turn to go to")
        frame, index, depth = frames[-1], frames[-1].index, len(frames)

        def enough() -> bool:
            running = self.executor.frames
            return len(running) < depth or running[depth - 1] is not frame or frame.index != index

        return self._run(enough)

    def finish(self) -> Stop:
        """Run to the end of the block that is being run; from ``entry`` to the end of the step."""
        frames = self._frames()
        blocks = [place for place, frame in enumerate(frames) if frame.loop is None]
        if not blocks:
            return self.resume()
        depth, block = blocks[-1], frames[blocks[-1]]

        def enough() -> bool:
            running = self.executor.frames
            return len(running) <= depth or running[depth] is not block

        return self._run(enough)

    def resume(self) -> Stop:
        """Run to the next breakpoint, or to the end of the step."""
        return self._run(lambda: False)

    def interrupt(self) -> None:
        """Stop after the statement that is running; may be called from a signal handler or another thread."""
        self._interrupted = True

    def close(self) -> None:
        """Abort the step that is running, if one is."""
        if self._runs is not None:
            self._runs.close()
            self._runs = None

    def levels(self) -> tuple[Level, ...]:
        """Return the running blocks and loops, outermost first."""
        if self._runs is not None and not self.executor.frames:
            return (Level(kind="block", name="entry"),)
        return levels(self.executor.frames)

    # Parts

    def _indices_here(self) -> Mapping[str, int]:
        """Return the loop indices that the statement sees which runs next."""
        return loop_indices(self.executor.frames)

    def _begun(self) -> Generator[NodeRun]:
        yield from self.executor.iterate(consumers=True)

    def _frames(self) -> Sequence[Frame]:
        if self._runs is None:
            raise StepStateError("no step is running: begin one")
        return self.executor.frames

    def _run(self, enough: Callable[[], bool]) -> Stop:
        self._frames()
        self._interrupted = False
        while True:
            hits = self._advance()
            place = upcoming(self.executor.frames)
            hits += self._here(place)
            if hits or place is None or self._failure is not None or self._interrupted or enough():
                break
        if place is None:
            self._end()
        return self._stop(hits, interrupted=self._interrupted and place is not None)

    def _advance(self) -> list[Hit]:
        """Run one statement; return the breakpoints that its values reach."""
        runs = self._runs
        if runs is None:
            raise StepStateError("no step is running: begin one")
        place = upcoming(self.executor.frames) if self.executor.frames else self._first()
        before = self._breakpoints.overwritten(None if place is None else place.node)
        try:
            run = next(runs)
        except BaseException:
            self._runs = None
            raise
        node = self._nodes[run.event.node_index]
        begins = self._event is None
        self._event, self._failure = run.event, run.failure
        if run.failure is not None:
            return []
        self._indices = partial(indices_around, run.event)
        try:
            self._look(lambda watched: begins or self._concerned(watched, node))
            return self._breakpoints.reached(run.event, node, before)
        finally:
            self._indices = self._indices_here

    def _end(self) -> None:
        """Let the executor notice that the step is over."""
        runs, self._runs = self._runs, None
        if runs is not None:
            list(runs)

    def _stop(self, hits: Iterable[Hit], *, interrupted: bool = False) -> Stop:
        changes = tuple(self._changes)
        self._changes.clear()
        place = self._first() if self._event is None else upcoming(self.executor.frames)
        event = self._event
        return Stop(
            event=event,
            node=None if event is None else self._nodes[event.node_index],
            next=place if self._runs is not None else None,
            hits=tuple(hits),
            changes=changes,
            interrupted=interrupted,
            failure=self._failure,
        )

    def _first(self) -> Place | None:
        nodes = self.executor.program.graph.blocks["entry"].nodes
        return Place(nodes[0], "entry") if nodes else None

    def _here(self, place: Place | None) -> list[Hit]:
        """Return the breakpoints at the statement that runs next."""
        if place is None or self._is_within(place):
            return []
        return [Hit(each) for each in self._breakpoints.known.values() if self._is_at(each, place)]

    def _is_within(self, place: Place | None) -> bool:
        """Whether what runs next belongs to the statement that has just run: an operator placed on another device has
        transfers around it, which name that device (``vulkan:y``)."""
        event = self._event
        if (
            event is None
            or place is None
            or event.node_index != place.node.index
            or not isinstance(place.node.kind, Op)
        ):
            return False
        if event.kind == "OpExecute":
            return is_transfer(self.executor.frames)
        return any(":" in name for name in event.output)

    def _is_at(self, each: Breakpoint, place: Place) -> bool:
        node = place.node
        match each:
            case OperatorBreakpoint(op):
                resolved = self.executor.program.ops.get(node.index)
                return resolved is not None and op in (resolved.op, getattr(node.kind, "op", ""))
            case LineBreakpoint(line):
                return node.span is not None and node.span.line == line
            case BlockBreakpoint(block):
                frames = self.executor.frames
                begins = not frames or (frames[-1].loop is None and frames[-1].position == 0)
                return place.block == block and begins
            case _:
                return False

    def _concerned(self, watched: Watched, node: Node) -> bool:
        return may_change_anything(node) or watched.concerns(writes(node), self._indices())

    def _look(self, concerned: Callable[[Watched], bool]) -> None:
        """Evaluate watch expressions again, and note what has changed."""
        where = "the step begins" if self._event is None else self._event.node_desc
        for watched in self._watches.values():
            change = watched.change(where) if concerned(watched) else None
            if change is not None:
                self._changes.append(change)
