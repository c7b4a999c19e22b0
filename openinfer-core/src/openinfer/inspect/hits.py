"""Data breakpoints, evaluated after every statement on the values that it has written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from openinfer.inspect.breakpoints import (
    ConditionBreakpoint,
    NonFiniteBreakpoint,
    RangeBreakpoint,
    WriteBreakpoint,
)
from openinfer.inspect.conditions import accesses
from openinfer.ir.nodes import CacheRead
from openinfer.ir.uses import reads, writes
from openinfer.simulate.execute.touched import fetched, inputs_of, may_change_anything, non_finite, outputs_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from openinfer.events import TraceEvent
    from openinfer.inspect.breakpoints import Breakpoint
    from openinfer.inspect.evaluation import Values
    from openinfer.ir.nodes import Node
    from openinfer.simulate.execute.executor import Executor

    NonFinite: TypeAlias = dict[str, tuple[bool, bool]]
    """By name: whether a value has NaN, and whether it has infinities."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A breakpoint that was reached, and what was found there."""

    breakpoint: Breakpoint
    found: str = ""

    def __str__(self) -> str:
        return f"{self.breakpoint}" + (f": {self.found}" if self.found else "")


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
        self._true: set[int] = set()

    def begin(self) -> None:
        """See which conditions are true at the beginning of a step; they are not reached until they were false."""
        conditions = ((n, each) for n, each in self.known.items() if isinstance(each, ConditionBreakpoint))
        self._true = {number for number, each in conditions if self._values.holds(each.expression)}

    def forget(self, number: int) -> Breakpoint | None:
        """Forget a breakpoint and return it; None if there is none of that number."""
        self._true.discard(number)
        return self.known.pop(number, None)

    def overwritten(self, node: Node | None) -> NonFinite:
        """Return what a statement's inputs hold that it is about to overwrite, where a breakpoint asks for it."""
        if node is None or not any(isinstance(each, NonFiniteBreakpoint) for each in self.known.values()):
            return {}
        in_place = tuple(reads(node) & writes(node))
        return {name: non_finite(tensor) for name, tensor in fetched(self._executor.fetch_raw, in_place)}

    def reached(self, event: TraceEvent, node: Node, before: NonFinite) -> list[Hit]:
        """Return the breakpoints that a statement has reached by what it wrote.

        Args:
            before: what `overwritten` returned before it ran.
        """
        return [hit for number, each in self.known.items() for hit in self._reached(number, each, event, node, before)]

    def _reached(
        self, number: int, each: Breakpoint, event: TraceEvent, node: Node, before: NonFinite
    ) -> Iterable[Hit]:
        match each:
            case WriteBreakpoint(variable) if variable in writes(node):
                return [Hit(each)]
            case NonFiniteBreakpoint():
                return self._non_finite(each, event, node, before)
            case RangeBreakpoint():
                return self._out_of_range(each, event, node)
            case ConditionBreakpoint():
                return self._condition(number, each, node)
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

    def _non_finite(self, each: NonFiniteBreakpoint, event: TraceEvent, node: Node, before: NonFinite) -> list[Hit]:
        """Return a hit where an output has NaN or infinities and no input had."""
        # What is read from a cache was there before, as an input is.
        if each.nan is each.infinity is False or isinstance(node.kind, CacheRead):
            return []
        for name, tensor in fetched(self._executor.fetch_raw, outputs_of(event, node)):
            nan, infinity = non_finite(tensor)
            if not (nan and each.nan) and not (infinity and each.infinity):
                continue
            inputs = inputs_of(event, node)
            kept = (name for name in inputs if name not in writes(node))
            held_after = {name: non_finite(tensor) for name, tensor in fetched(self._executor.fetch_raw, kept)}
            held = [{**before, **held_after}.get(name, (False, False)) for name in inputs]
            had_nan, had_infinity = any(n for n, _ in held), any(i for _, i in held)
            found = [text for text, here in _kinds(each, nan and not had_nan, infinity and not had_infinity) if here]
            if found:
                return [Hit(each, f"{' and '.join(found)} in `{name}`")]
        return []


def _kinds(each: NonFiniteBreakpoint, nan: bool, infinity: bool) -> tuple[tuple[str, bool], ...]:
    return ("NaN", each.nan and nan), ("infinity", each.infinity and infinity)
