"""The static arena: which values may share memory, and where each one lies."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from openinfer.plan.values import ArenaMemory, NoMemory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from openinfer.arch import MemoryBank
    from openinfer.ir.types import TensorType
    from openinfer.plan.liveness import Liveness
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
    least: Mapping[int, int] | None = None,
) -> tuple[tuple[PlanValue, ...], tuple[int, ...]]:
    """Return the values with memory for all that steps touch: that of what they are copied from, or in the arena.

    Behind them the bytes of the arena: those in each memory, or all.

    Args:
        overlaps: whether results may begin to overwrite operands that are still read (`openinfer.plan.overlap`).
        banks: memories that the arena is spread over, in the order in which they are filled; None is one of any size.
        least: for some values, offsets from which on they may find a better place (`openinfer.plan.directions`).

    Raises:
        SynthesisError: the memories do not hold the values.
    """
    used = touched(procedures)
    homeless = mask(v.number for v in values if isinstance(v.memory, NoMemory) and used >> v.number & 1)
    types = [value.stored for value in values]
    found = interference(procedures, liveness, types, homeless | copied(procedures))
    always = kept_apart(parallel(procedures), homeless | copied(procedures))
    for value, others in always.items():
        found.conflicts[value] = found.conflicts.get(value, 0) | others
    sharing = shared(procedures, values, found.conflicts)
    groups = {sharing.of(value) for value in members(homeless)}
    homes = {group: sharing.home(group) for group in groups}
    free = {group: home for group, home in homes.items() if isinstance(home.memory, NoMemory)}
    sizes = {group: home.stored.nbytes for group, home in free.items()}
    classes = {group: home.type.dtype.name for group, home in free.items()}
    between = sharing.between(free, procedures)
    level = sharing.groups(found.level)
    offsets, total = place(sizes, classes, between, level)
    apart: dict[tuple[int, int], int] = {}
    if overlaps and total > LEAST:
        alone = mask(group for group in free if sharing.members(group) == 1 << group)
        pairs = [
            (result, operand)
            for result in members(alone)
            for operand in members(between[result] & alone)
            if LARGE * (sizes[result] + sizes[operand]) > total
            and not (always.get(result, 0) >> operand | always.get(operand, 0) >> result) & 1
        ]
        apart = distances(procedures, liveness, values, pairs)
        found_places = [(offsets, total), place(sizes, classes, between, level, apart)]
        starts = {group: start for group, start in (least or {}).items() if group in sizes and alone >> group & 1}
        if starts:
            found_places.append(place(sizes, classes, between, level, apart, starts))
        offsets, total = min(found_places, key=lambda each: each[1])

    def among(some: Sequence[int]) -> tuple[dict[int, int], int]:
        """Return the places of some groups in a memory of their own."""
        chosen, bits = {group: sizes[group] for group in some}, mask(some)
        near = {pair: distance for pair, distance in apart.items() if bits >> pair[0] & bits >> pair[1] & 1}
        kept = {group: between[group] & bits for group in some}
        best = place(chosen, classes, kept, level)
        return min(best, place(chosen, classes, kept, level, near), key=lambda each: each[1]) if near else best

    found_in = Placed({group: (0, offset) for group, offset in offsets.items()}, (total,))
    if banks is not None:
        found_in = spread(free, _touches(procedures, sharing.of, homeless), banks, among)
    places = {group: ArenaMemory(offset, bank) for group, (bank, offset) in found_in.offsets.items()}
    memory = {group: places[group] if group in places else homes[group].memory for group in groups}
    return tuple(
        replace(value, memory=memory[sharing.of(value.number)]) if homeless >> value.number & 1 else value
        for value in values
    ), found_in.used


def _touches(procedures: Sequence[Procedure], group_of: Callable[[int], int], values: int) -> dict[int, int]:
    """Return how many steps read or write some values (as bits) of each group."""
    found: dict[int, int] = {}
    for procedure in procedures:
        for step in walk(procedure.steps):
            for value in members((reads(step) | writes(step)) & values):
                found[group_of(value)] = found.get(group_of(value), 0) + 1
    return found


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
                found = overwritten(step, value) & read & ~(1 << value) if read else 0
                same = mask(other for other in members(found) if types[other] == types[value])
                conflicts[value] |= (needed | read & ~same) & ~(1 << value)
                if same:
                    level[value] = level.get(value, 0) | same
    return Interference(conflicts, level)
