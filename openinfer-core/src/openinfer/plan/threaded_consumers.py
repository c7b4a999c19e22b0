"""Consumers on threads: they start where ``entry`` yields and are joined where it awaits.

Consumers that use what another one writes, such as their common requirement or temporaries of the same name, follow one
another on one thread, readers first: what they wait for is not copied. Those that would have to wait for one that may
not run yet are left to the await, which calls them in line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.plan.accesses import Accesses, called, walk
from openinfer.plan.parallel import Touched
from openinfer.plan.steps import BarrierStep, CallStep, Procedure

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from openinfer.plan.steps import Origin, Step


class ThreadedConsumers:
    """Starts and joins the consumers of ``entry``.

    Args:
        procedures: the blocks that ``entry`` calls, callees first. Those that run several consumers are added.
    """

    def __init__(self, procedures: list[Procedure]) -> None:
        self._procedures = procedures
        accesses = Accesses(procedures)
        self._touched = {p.name: _touched(p, accesses) for p in procedures}
        self._reached = _reached(procedures)
        self._running: dict[str, None] = {}
        self._consumers_running: dict[str, None] = {}

    def free(self, ready: Sequence[str], unready: Sequence[str]) -> set[str]:
        """Return the consumers among those that are ready that need not wait for one that cannot run yet."""
        held = set[str]()
        while True:
            against = [*self._consumers_running, *held, *unready]
            more = {name for name in ready if name not in held and any(self._clash(name, o) for o in against)}
            if not more:
                return set(ready) - held
            held |= more

    def start(self, names: Sequence[str], origin: Origin) -> Iterator[Step]:
        """Yield the calls of consumers, which come in the order in which they could be called."""
        for group in self._groups(names):
            yield CallStep(origin=origin, procedure=self._procedure(group, origin), on_thread=True)

    def join(self, origin: Origin) -> Iterator[Step]:
        """Yield the wait for all that runs."""
        if self._running:
            yield BarrierStep(origin=origin, joins=tuple(sorted(self._running)))
        self._running.clear()
        self._consumers_running.clear()

    def _groups(self, names: Sequence[str]) -> list[list[str]]:
        """Return consumers in groups that may run at the same time, each in the order that they are given in."""
        groups: list[list[str]] = []
        for name in names:
            near = [group for group in groups if any(self._clash(name, other) for other in group)]
            groups = [group for group in groups if group not in near]
            groups.append([*(other for group in near for other in group), name])
        return groups

    def _procedure(self, group: Sequence[str], origin: Origin) -> str:
        """Return the procedure that runs consumers."""
        name = "+".join(group)
        self._consumers_running.update(dict.fromkeys(group))
        self._running[name] = None
        if all(procedure.name != name for procedure in self._procedures):
            steps = tuple(self._grouped(group, origin))
            self._procedures.append(Procedure(name, steps))
        return name

    def _grouped(self, group: Sequence[str], origin: Origin) -> Iterator[Step]:
        """Yield the calls of a group: readers that do not clash at the same time, then those that follow them."""
        levels: list[list[str]] = []
        for name in group:
            depth = max((n for n, level in enumerate(levels, 1) if any(self._clash(name, o) for o in level)), default=0)
            if depth == len(levels):
                levels.append([])
            levels[depth].append(name)
        for level in levels:
            *others, last = level
            for name in others:
                yield CallStep(origin=origin, procedure=name, on_thread=True)
            yield CallStep(origin=origin, procedure=last)
            if others:
                yield BarrierStep(origin=origin, joins=tuple(sorted(others)))

    def _clash(self, one: str, other: str) -> bool:
        """Whether two consumers must not run at the same time: a value, or a block that they call, is common."""
        first, second = self._touched[one], self._touched[other]
        return bool(first.races_with(second)) or bool(self._reached[one] & self._reached[other])


def _touched(procedure: Procedure, accesses: Accesses) -> Touched:
    read = written = 0
    for step in procedure.steps:
        one = accesses.of(step)
        read, written = read | one[0], written | one[1]
    return Touched(read, written)


def _reached(procedures: Sequence[Procedure]) -> dict[str, frozenset[str]]:
    """Return the procedures that each one calls, directly or through others, with itself."""
    reached: dict[str, frozenset[str]] = {}
    for procedure in procedures:
        calls = [name for step in walk(procedure.steps) for name in called(step)]
        reached[procedure.name] = frozenset((procedure.name, *(further for name in calls for further in reached[name])))
    return reached
