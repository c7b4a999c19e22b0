"""The static arena: which values may share memory, and where each one lies."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from openinfer.plan.accesses import mask, members, reads, touched, walk, writes
from openinfer.plan.banks import Placed, spread
from openinfer.plan.in_place import overwritten
from openinfer.plan.overlap import distances
from openinfer.plan.parallel import apart as kept_apart
from openinfer.plan.parallel import parallel
from openinfer.plan.places import place
from openinfer.plan.sharing import copied, shared
from openinfer.plan.steps import CopyStep
from openinfer.plan.values import ArenaMemory, NoMemory, StateMemory, ViewMemory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from openinfer.arch import MemoryBank
    from openinfer.ir.types import TensorType
    from openinfer.plan.liveness import Liveness
    from openinfer.plan.sharing import Sharing
    from openinfer.plan.steps import Procedure
    from openinfer.plan.values import PlanValue

LEAST = 4096
"""Bytes up to which an arena is left as it is: finding out what may overlap takes time."""

LARGE = 4
"""Results and operands that take less than this share of the arena together lie apart: overlap gains little there."""


def placed(
    values: Sequence[PlanValue],
    procedures: Sequence[Procedure],
    liveness: Liveness,
    *,
    overlaps: bool = False,
    banks: Sequence[MemoryBank] | None = None,
    states_first: bool = False,
    least: Mapping[int, int] | None = None,
) -> tuple[tuple[PlanValue, ...], tuple[int, ...]]:
    """Return the values with memory for all that steps touch: that of what they are copied from, or in the arena.

    After them the bytes of the arena: those in each memory, or all.

    Args:
        overlaps: whether results may begin to overwrite operands that are still read (`openinfer.plan.overlap`).
        banks: memories that the arena and the states are spread over, in the order in which they are filled; None is
            one of any size, and states lie elsewhere.
        states_first: whether the nearest memories are for states before they are for the arena.
        least: for some values, offsets from which on they may find a better place (`openinfer.plan.directions`).

    Raises:
        SynthesisError: the memories do not hold the values.
    """
    used = touched(procedures)
    homeless = mask(v.number for v in values if isinstance(v.memory, NoMemory) and used >> v.number & 1)
    types = [value.stored for value in values]
    relations = interference(procedures, liveness, types, homeless | copied(procedures))
    always = kept_apart(parallel(procedures), homeless | copied(procedures))
    for value, others in always.items():
        relations.conflicts[value] = relations.conflicts.get(value, 0) | others
    sharing = shared(procedures, values, relations.conflicts)
    homes = {value: sharing.home(sharing.of(value)) for value in members(homeless)}
    free = {sharing.of(value): home for value, home in homes.items() if isinstance(home.memory, NoMemory)}
    groups = _Groups(
        sizes={group: home.stored.nbytes for group, home in free.items()},
        classes={group: home.type.dtype.name for group, home in free.items()},
        between=sharing.between(free, procedures),
        level=sharing.groups(relations.level),
    )
    plain = groups.disjoint(free)
    if overlaps and plain[1] > LEAST:
        alone = mask(group for group in free if sharing.members(group) == 1 << group)
        pairs = groups.large_pairs(alone, always, plain[1])
        starts = {group: start for group, start in (least or {}).items() if alone >> group & 1}
        groups = replace(groups, apart=distances(procedures, liveness, values, pairs), starts=starts)
    if banks is None:
        offsets, total = min((plain, *groups.overlapping(free)), key=lambda placing: placing[1])
        found_in = Placed({group: (0, offset) for group, offset in offsets.items()}, (total,))
    else:
        states = {value.number: value for value in values if isinstance(value.memory, StateMemory)}
        touches = _touches(procedures, sharing)
        found_in = spread({**free, **states}, touches, banks, groups.places, states_first=states_first)
    return tuple(_with_memory(value, homes, sharing, found_in) for value in values), found_in.used


@dataclass(frozen=True, slots=True, kw_only=True)
class _Groups:
    """Values that need a place in the arena, those in one memory as one: arguments of `openinfer.plan.places.place`.

    Attributes:
        starts: offsets from which on some may find a better place.
    """

    sizes: Mapping[int, int]
    classes: Mapping[int, str]
    between: Mapping[int, int]
    level: Mapping[int, int]
    apart: Mapping[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    starts: Mapping[int, int] = field(default_factory=dict[int, int])

    def places(self, some: Iterable[int]) -> tuple[dict[int, int], int]:
        """Return the offsets of some groups in a memory of their own, and the bytes that they take."""
        chosen = tuple(some)
        return min((self.disjoint(chosen), *self.overlapping(chosen)), key=lambda placing: placing[1])

    def disjoint(self, some: Iterable[int]) -> tuple[dict[int, int], int]:
        """Return such offsets where no conflicting groups overlap."""
        sizes, between = self._among(some)
        return place(sizes, self.classes, between, self.level)

    def overlapping(self, some: Iterable[int]) -> Iterator[tuple[dict[int, int], int]]:
        """Yield such offsets where groups may overlap in part, or have better places to start at."""
        sizes, between = self._among(some)
        bits = mask(sizes)
        near = {pair: distance for pair, distance in self.apart.items() if bits >> pair[0] & bits >> pair[1] & 1}
        if near:
            yield place(sizes, self.classes, between, self.level, near)
        starts = {group: start for group, start in self.starts.items() if group in sizes}
        if starts:
            yield place(sizes, self.classes, between, self.level, near, starts)

    def _among(self, some: Iterable[int]) -> tuple[dict[int, int], dict[int, int]]:
        sizes = {group: self.sizes[group] for group in some}
        bits = mask(sizes)
        return sizes, {group: self.between[group] & bits for group in sizes}

    def large_pairs(self, alone: int, always: Mapping[int, int], total: int) -> list[tuple[int, int]]:
        """Return the pairs of results and operands in conflict that may gain from an overlap.

        Args:
            alone: groups (as bits) of one value.
            always: values (as bits) that a value must not overlap in any way.
            total: bytes of the arena without an overlap.
        """
        return [
            (result, operand)
            for result in members(alone)
            for operand in members(self.between[result] & alone)
            if LARGE * (self.sizes[result] + self.sizes[operand]) > total
            and not (always.get(result, 0) >> operand | always.get(operand, 0) >> result) & 1
        ]


def _with_memory(value: PlanValue, homes: Mapping[int, PlanValue], sharing: Sharing, placement: Placed) -> PlanValue:
    """Return a value with its place: that of its home, if it has no memory of its own and needs some."""
    memory = homes.get(value.number, value).memory
    if isinstance(memory, StateMemory):
        number = homes.get(value.number, value).number
        bank, offset = placement.offsets.get(number, (None, 0))
        memory = replace(memory, bank=bank, offset=offset)
    elif value.number in homes and isinstance(memory, NoMemory):
        bank, offset = placement.offsets[sharing.of(value.number)]
        memory = ArenaMemory(offset, bank)
    return value if memory == value.memory else replace(value, memory=memory)


def _touches(procedures: Sequence[Procedure], sharing: Sharing) -> dict[int, int]:
    """Return how many steps read or write each group of values, and each state, of which some values are views."""
    touches: dict[int, int] = {}
    for procedure in procedures:
        for step in walk(procedure.steps):
            for value in members(reads(step) | writes(step)):
                group = sharing.of(value)
                home = sharing.home(group)
                memory = home.memory
                if isinstance(memory, ViewMemory):
                    group = memory.state
                elif isinstance(memory, StateMemory):
                    group = home.number
                touches[group] = touches.get(group, 0) + 1
    return touches


@dataclass(frozen=True, slots=True)
class Interference:
    """Which values must not share memory (values as bits).

    Attributes:
        conflicts: others that a value must not share memory with; of two values in conflict at least one names the
            other.
        level: operands that a result overwrites element by element: they share memory only where both begin at the
            same place.
    """

    conflicts: dict[int, int]
    level: dict[int, int]


def interference(
    procedures: Sequence[Procedure], liveness: Liveness, types: Sequence[TensorType], values: int
) -> Interference:
    """Return which of some values (as bits) must not share memory.

    A value that is written must not overlap anything that is read by the same step or needed after it. Only a
    computation may write where it reads, where it reads an element for the last time before it writes it. A copy may
    lie where its source lies, exactly there, as long as neither is written again.

    Args:
        types: of each value as it lies in memory.
    """
    conflicts = dict.fromkeys(members(values), 0)
    level: dict[int, int] = {}
    for procedure in procedures:
        for step in walk(procedure.steps):
            written, read = writes(step) & values, reads(step) & values
            if not written:
                continue
            needed = liveness.after(step) & values | written
            if isinstance(step, CopyStep) and step.count is None:
                needed, read = needed & ~reads(step), 0
            for value in members(written):
                replaced = overwritten(step, value) & read & ~(1 << value) if read else 0
                same = mask(other for other in members(replaced) if types[other] == types[value])
                conflicts[value] |= (needed | read & ~same) & ~(1 << value)
                if same:
                    level[value] = level.get(value, 0) | same
    return Interference(conflicts, level)
