"""Copies that are views: both values share memory, because neither changes while the other is needed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from openinfer.plan.accesses import mask, members, walk, writes
from openinfer.plan.steps import CopyStep, ValueRef
from openinfer.plan.values import InputMemory, NoMemory, StateMemory, ViewMemory, WeightMemory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from openinfer.plan.steps import Procedure, Step
    from openinfer.plan.values import PlanValue


@dataclass
class Sharing:
    """Groups of values that lie in the same memory.

    Attributes:
        group: the group of each value, called after one of its members.
        conflicts: which values must not lie where those of a group lie.
    """

    values: Sequence[PlanValue]
    conflicts: dict[int, int]
    group: dict[int, int] = field(default_factory=dict[int, int])
    _members: dict[int, int] = field(default_factory=dict[int, int])
    _homes: dict[int, PlanValue] = field(default_factory=dict["int", "PlanValue"])

    def of(self, value: int) -> int:
        """Return the group of a value."""
        return self.group.get(value, value)

    def members(self, group: int) -> int:
        """Return the values of a group as bits."""
        return self._members.get(group, 1 << group)

    def home(self, group: int) -> PlanValue:
        """Return the first value of a group that has memory of its own, or else the first."""
        return self._homes.get(group, self.values[group])

    def between(self, groups: Iterable[int], procedures: Iterable[Procedure]) -> dict[int, int]:
        """Return the conflicts of some groups among themselves; copies between two of them must not overlap."""
        conflicts = {group: mask(map(self.of, members(self.conflicts.get(group, 0)))) for group in groups}
        every = mask(conflicts)
        for source, output in copies(procedures):
            first, second = self.of(source), self.of(output)
            if first != second and first in conflicts:
                conflicts[first] |= 1 << second
        return {group: others & every & ~(1 << group) for group, others in conflicts.items()}

    def groups(self, pairs: Mapping[int, int]) -> dict[int, int]:
        """Return a relation of values, as bits, between their groups."""
        related: dict[int, int] = {}
        for value, others in pairs.items():
            group = self.of(value)
            related[group] = related.get(group, 0) | mask(map(self.of, members(others)))
        return related

    def join(self, first: int, second: int) -> None:
        """Make two groups one."""
        joined = self.members(second)
        homes = (self.home(first), self.home(second))
        self._homes[first] = min(homes, key=lambda home: (isinstance(home.memory, NoMemory), home.number))
        self._members[first] = self.members(first) | joined
        self.conflicts[first] = self.conflicts.get(first, 0) | self.conflicts.get(second, 0)
        self.group.update(dict.fromkeys(members(joined), first))


def copies(procedures: Iterable[Procedure]) -> Iterator[tuple[int, int]]:
    """Yield the source and the output of each copy of a value."""
    for procedure in procedures:
        for step in walk(procedure.steps):
            if isinstance(step, CopyStep) and isinstance(step.source, ValueRef) and step.count is None:
                yield step.source.value, step.output


def shared(procedures: Sequence[Procedure], values: Sequence[PlanValue], conflicts: Mapping[int, int]) -> Sharing:
    """Return which copied values lie in one memory with what they are copied from.

    Args:
        conflicts: `openinfer.plan.arena.interference` of the values that are copied and of those without memory.
    """
    sharing = Sharing(values, dict(conflicts))
    changed = _changed(procedures)
    for source, output in copies(procedures):
        first, second = sharing.of(source), sharing.of(output)
        if first != second and _may_join(sharing, first, second, changed):
            sharing.join(first, second)
    return sharing


def _may_join(sharing: Sharing, first: int, second: int, changed: int) -> bool:
    one, other = sharing.home(first), sharing.home(second)
    if not isinstance(one.memory, NoMemory) and not isinstance(other.memory, NoMemory):
        return False
    if one.type.dtype is not other.type.dtype:
        return False
    mine, theirs = sharing.members(first), sharing.members(second)
    for home, others in ((one, theirs), (other, mine)):
        # A result that is computed into a state would change it before `cache.write` does, or without one.
        if isinstance(home.memory, StateMemory | ViewMemory) and others & changed:
            return False
    is_fixed = any(isinstance(home.memory, InputMemory | WeightMemory) for home in (one, other))
    if is_fixed and (mine | theirs) & changed:
        return False
    return not sharing.conflicts.get(first, 0) & theirs and not sharing.conflicts.get(second, 0) & mine


def _changed(procedures: Iterable[Procedure]) -> int:
    """Return the values that are written by more than one step, or by another one than a copy of a value."""
    once = more = 0
    for procedure in procedures:
        for step in walk(procedure.steps):
            written = writes(step)
            more |= written & once
            once |= written
            if not _is_copy(step):
                more |= written
    return more


def _is_copy(step: Step) -> bool:
    return isinstance(step, CopyStep) and isinstance(step.source, ValueRef) and step.count is None


def copied(procedures: Iterable[Procedure]) -> int:
    """Return the values (as bits) that copies read or write."""
    return mask(value for pair in copies(procedures) for value in pair)
