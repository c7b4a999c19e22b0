"""Data breakpoints, evaluated after every statement on the values that it has written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.inspect.breakpoints import (
    ConditionBreakpoint,
    NonFiniteBreakpoint,
    RangeBreakpoint,
    WriteBreakpoint,
)
from openinfer.inspect.conditions import accesses
from openinfer.inspect.non_finite import Origins, non_finite
from openinfer.ir.nodes import CacheRead
from openinfer.ir.uses import writes
from openinfer.simulate.execute.touched import fetched, may_change_anything, outputs_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from openinfer.events import TraceEvent
    from openinfer.inspect.breakpoints import Breakpoint
    from openinfer.inspect.evaluation import Values
    from openinfer.inspect.non_finite import Arrival, NonFinite
    from openinfer.ir.nodes import Node
    from openinfer.simulate.execute.executor import Executor


@dataclass(frozen=True, slots=True)
class Hit:
    """A breakpoint that was reached, and what was found there."""

    breakpoint: Breakpoint
    found: str = ""

    def __str__(self) -> str:
        return f"{self.breakpoint}" + (f": {self.found}" if self.found else "")


@dataclass(frozen=True, slots=True)
class _Ran:
    """A statement that has just run: what the inputs that it overwrote held, and what it read from outside."""

    event: TraceEvent
    node: Node
    before: Mapping[str, NonFinite]
    arrivals: Sequence[Arrival]


class ValueBreakpoints:
    """Holds values against breakpoints, which it knows by number.

    Args:
        values: what conditions are worth at a moment.
        indices: the loop indices of the statement that has just run.

    Attributes:
        known: the breakpoints by number, those that no value reaches included.
    """

    def __init__(self, executor: Executor, values: Values, indices: Callable[[], Mapping[str, int]]) -> None:
        self.known: dict[int, Breakpoint] = {}
        self._executor = executor
        self._values = values
        self._indices = indices
        self._origins = Origins(executor)
        self._true: set[int] = set()

    def begin(self) -> None:
        """See which conditions are true at the beginning of a step; they are not reached until they were false."""
        self._origins.begin()
        conditions = ((n, each) for n, each in self.known.items() if isinstance(each, ConditionBreakpoint))
        self._true = {number for number, each in conditions if self._values.holds(each.expression)}

    def forget(self, number: int) -> Breakpoint | None:
        """Forget a breakpoint and return it; None if there is none of that number."""
        self._true.discard(number)
        return self.known.pop(number, None)

    def overwritten(self, node: Node | None) -> Mapping[str, NonFinite]:
        """Return what a statement's inputs hold that it is about to overwrite, where a breakpoint asks for it."""
        return self._origins.overwritten(node) if node is not None and self._kinds() else {}

    def reached(self, event: TraceEvent, node: Node, before: Mapping[str, NonFinite]) -> list[Hit]:
        """Return the breakpoints that a statement has reached by what it read and wrote.

        Args:
            before: what `overwritten` returned before it ran.
        """
        kinds = self._kinds()
        arrivals = self._origins.arrivals(event, node, before) if kinds else []
        ran = _Ran(event, node, before, arrivals)
        hits = [hit for number, each in self.known.items() for hit in self._reached(number, each, ran)]
        if kinds:
            self._origins.settle(event, node, [arrival for arrival in arrivals if arrival.kind in kinds])
        self._origins.note(node)
        return hits

    def _kinds(self) -> set[str]:
        """Return what breakpoints look for: NaN, infinities."""
        return {kind for each in self.known.values() if isinstance(each, NonFiniteBreakpoint) for kind in each.kinds}

    def _reached(self, number: int, each: Breakpoint, ran: _Ran) -> Iterable[Hit]:
        match each:
            case WriteBreakpoint(variable) if variable in writes(ran.node):
                return [Hit(each)]
            case NonFiniteBreakpoint():
                return self._non_finite(each, ran)
            case RangeBreakpoint():
                return self._out_of_range(each, ran.event, ran.node)
            case ConditionBreakpoint():
                return self._condition(number, each, ran.node)
            case _:
                return []

    def _condition(self, number: int, each: ConditionBreakpoint, node: Node) -> list[Hit]:
        """Return a hit when a condition becomes true."""
        names = {access.name for access in accesses(each.expression)}
        if names.isdisjoint(writes(node)) and names.isdisjoint(self._indices()) and not may_change_anything(node):
            return []
        if not self._values.holds(each.expression):
            self._true.discard(number)
            return []
        if number in self._true:
            return []
        self._true.add(number)
        return [Hit(each)]

    def _out_of_range(self, each: RangeBreakpoint, event: TraceEvent, node: Node) -> list[Hit]:
        for name, tensor in fetched(self._executor.fetch_raw, outputs_of(event, node)):
            if each.variable not in (None, name) and each.variable not in writes(node):
                continue
            array = tensor.array.reshape(-1)
            outside = (array < each.low) | (array > each.high)
            if outside.any():
                first = array[int(outside.argmax())]
                return [Hit(each, f"`{name}` has {first} ({int(outside.sum())} of {array.size} are outside)")]
        return []

    def _non_finite(self, each: NonFiniteBreakpoint, ran: _Ran) -> list[Hit]:
        """Return a hit where a value brings NaN or infinities into the step, or an output has some and no input had."""
        arrivals = [str(arrival) for arrival in ran.arrivals if arrival.kind in each.kinds]
        if arrivals:
            return [Hit(each, "; ".join(arrivals))]
        # What is read from a cache was there before, as an input is.
        if isinstance(ran.node.kind, CacheRead):
            return []
        for name, tensor in fetched(self._executor.fetch_raw, outputs_of(ran.event, ran.node)):
            kinds = [kind for kind in each.kinds if kind in non_finite(tensor)]
            held = self._origins.held(ran.event, ran.node, ran.before) if kinds else set[str]()
            new = [kind for kind in kinds if kind not in held]
            if new:
                return [Hit(each, f"{' and '.join(new)} in `{name}`")]
        return []
