"""What runs at the same time: calls on threads, and the steps up to where they are joined.

The language's rule about races keeps the variables of both sides apart, so only memory has to follow: what one side
writes lies where nothing is that the other one touches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from openinfer.errors import SynthesisError
from openinfer.plan.accesses import Accesses, members, walk
from openinfer.plan.steps import BarrierStep, CallStep, LoopStep

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from openinfer.plan.steps import Procedure, Step
    from openinfer.plan.values import PlanValue


@dataclass(frozen=True, slots=True)
class Touched:
    """Values that steps read and write, as bits."""

    read: int
    written: int

    @property
    def every(self) -> int:
        """Values that are read or written."""
        return self.read | self.written

    def races_with(self, other: Touched) -> int:
        """Return the values that one writes while the other one touches them."""
        return (self.written & other.every) | (other.written & self.read)


def has_threads(procedures: Iterable[Procedure]) -> bool:
    """Whether some call is on a thread."""
    return any(isinstance(s, CallStep) and s.on_thread for p in procedures for s in walk(p.steps))


def parallel(procedures: Sequence[Procedure]) -> tuple[tuple[Touched, Touched], ...]:
    """Return every two parts of a program, callees first, that may run at the same time; () without threads."""
    if not has_threads(procedures):
        return ()
    accesses = Accesses(procedures)
    return tuple(pair for procedure in procedures for pair in _of_list(procedure.steps, accesses))


def _of_list(steps: Sequence[Step], accesses: Accesses) -> Iterator[tuple[Touched, Touched]]:
    running: dict[str, Touched] = {}
    for step in steps:
        if isinstance(step, BarrierStep):
            for name in step.joins:
                running.pop(name, None)
        touched = Touched(*accesses.of(step))
        yield from ((other, touched) for other in running.values())
        if isinstance(step, CallStep) and step.on_thread:
            running[step.procedure] = touched
        if isinstance(step, LoopStep):
            yield from _of_list(step.body, accesses)


def spans(steps: Sequence[Step]) -> list[tuple[int, int]]:
    """Return for each step of a list the first and the last step that it may run at the same time with."""
    intervals: list[tuple[int, int]] = []
    running: set[str] = set()
    start = 0
    for at, step in enumerate(steps):
        if isinstance(step, BarrierStep):
            running.difference_update(step.joins)
        if not running:
            start = at
        intervals.append((start, at))
        if isinstance(step, CallStep) and step.on_thread:
            running.add(step.procedure)
    last = len(steps) - 1
    for at in range(len(steps) - 1, -1, -1):
        start = intervals[at][0]
        if at == len(steps) - 1 or intervals[at + 1][0] != start:
            last = at
        intervals[at] = (start, last)
    return intervals


def apart(pairs: Iterable[tuple[Touched, Touched]], values: int) -> dict[int, int]:
    """Return for some values (as bits) which others they must not share memory with, of parts that run in parallel."""
    conflicts: dict[int, int] = {}
    for pair in pairs:
        for one, other in (pair, pair[::-1]):
            for value in members(one.written & values):
                conflicts[value] = conflicts.get(value, 0) | (other.every & values & ~(1 << value))
    return conflicts


def check_races(procedures: Sequence[Procedure], values: Sequence[PlanValue]) -> None:
    """Check that parts that run at the same time have no value in common that one of them writes.

    Raises:
        SynthesisError: ``race``: they have.
    """
    for one, other in parallel(procedures):
        for value in members(one.races_with(other)):
            message = f"`{values[value].name}` is written on one thread while another one uses it"
            raise SynthesisError(f"{message}: write the program out without threads", code="race")
