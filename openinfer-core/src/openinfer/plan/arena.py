"""The static arena: which values may share memory, and where each one lies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from openinfer.plan.accesses import mask, members, reads, touched, walk, writes
from openinfer.plan.in_place import overwritten
from openinfer.plan.sharing import copied, shared
from openinfer.plan.steps import CopyStep
from openinfer.plan.values import ArenaMemory, NoMemory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from openinfer.ir.types import TensorType
    from openinfer.plan.liveness import Liveness
    from openinfer.plan.steps import Procedure, Step
    from openinfer.plan.values import PlanValue

ALIGNMENT = 64
"""Bytes at whose multiples values start: a cache line, and the widest vector register."""


def placed(
    values: Sequence[PlanValue], procedures: Sequence[Procedure], liveness: Liveness
) -> tuple[tuple[PlanValue, ...], int]:
    """Return the values with memory for all that steps touch: that of what they are copied from, or in the arena."""
    used = touched(procedures)
    homeless = mask(v.number for v in values if isinstance(v.memory, NoMemory) and used >> v.number & 1)
    types = [value.stored for value in values]
    conflicts = interference(procedures, liveness, types, homeless | copied(procedures))
    sharing = shared(procedures, values, conflicts)
    groups = {sharing.of(value) for value in members(homeless)}
    homes = {group: sharing.home(group) for group in groups}
    free = {group: home for group, home in homes.items() if isinstance(home.memory, NoMemory)}
    sizes = {group: home.stored.nbytes for group, home in free.items()}
    classes = {group: home.type.dtype.name for group, home in free.items()}
    exactly = dict.fromkeys(free, 0)
    for value, others in overwriting(procedures, types).items():
        if sharing.of(value) in free:
            exactly[sharing.of(value)] |= mask(map(sharing.of, members(others & homeless))) & mask(free)
    offsets, total = place(sizes, classes, sharing.between(free, procedures), exactly)
    memory = {group: ArenaMemory(offsets[group]) if group in offsets else homes[group].memory for group in groups}
    return tuple(
        replace(value, memory=memory[sharing.of(value.number)]) if homeless >> value.number & 1 else value
        for value in values
    ), total


def interference(
    procedures: Sequence[Procedure], liveness: Liveness, types: Sequence[TensorType], values: int
) -> dict[int, int]:
    """Return for each of some values (as bits) the others of them that it must not share memory with.

    Of two values in conflict at least one names the other. A value that is written must not lie where anything lives
    that is read by the same step or needed after it. Only a computation may write where it reads, where it reads an
    element for the last time before it writes it. A copy may lie where its source lies, exactly there, as long as
    neither is written again.

    Args:
        types: of each value as it lies in memory.
    """
    conflicts = dict.fromkeys(members(values), 0)
    for procedure in procedures:
        for step in walk(procedure.steps):
            written, read = writes(step) & values, reads(step) & values
            if not written:
                continue
            needed = liveness.after(step) & values | written
            if isinstance(step, CopyStep):
                needed, read = needed & ~reads(step), 0
            for value in members(written):
                kept = read & ~(_overwritten(step, value, types) if read else 0)
                others = needed | kept
                conflicts[value] |= others & ~(1 << value)
    return conflicts


def overwriting(procedures: Sequence[Procedure], types: Sequence[TensorType]) -> dict[int, int]:
    """Return for each result of a computation which values (as bits) it may overwrite, lying exactly there."""
    found: dict[int, int] = {}
    for procedure in procedures:
        for step in walk(procedure.steps):
            for value in members(writes(step)):
                found[value] = found.get(value, 0) | _overwritten(step, value, types) & ~(1 << value)
    return found


def _overwritten(step: Step, value: int, types: Sequence[TensorType]) -> int:
    return mask(each for each in members(overwritten(step, value)) if types[each] == types[value])


def place(
    sizes: Mapping[int, int],
    classes: Mapping[int, str],
    conflicts: Mapping[int, int],
    exactly: Mapping[int, int] | None = None,
) -> tuple[dict[int, int], int]:
    """Return the offset of each value, and the size of the arena.

    Greedy by size: the largest value first, each at the lowest free offset. Values share bytes only within a class
    (their element type), because C code must not reach one object through two types.

    Args:
        sizes: bytes of each value that needs memory.
        classes: name of the element type of each.
        conflicts: result of `interference` for these values.
        exactly: result of `overwriting` for these values: two of them begin at the same offset if they share bytes.
    """
    order = sorted(sizes, key=lambda v: (-sizes[v], v))
    clashes = _Clashes.of(order, classes, conflicts)
    pairs = None if exactly is None else _Clashes.of(order, dict.fromkeys(sizes, ""), exactly)
    offsets: dict[int, int] = {}
    # What is placed already, sorted by offset: ranks in the order of placing, where they begin and where they end.
    ranks, starts, ends = (np.empty(0, np.int64) for _ in range(3))
    for rank, value in enumerate(order):
        taken = clashes.among(rank, ranks)
        offset = _first_gap(starts[taken], ends[taken], sizes[value])
        if pairs is not None:
            others = pairs.among(rank, ranks)
            if (others & (starts != offset) & (starts < offset + sizes[value]) & (ends > offset)).any():
                taken |= others
                offset = _first_gap(starts[taken], ends[taken], sizes[value])
        offsets[value] = offset
        at = int(np.searchsorted(starts, offsets[value]))
        ranks = np.insert(ranks, at, rank)
        starts = np.insert(starts, at, offsets[value])
        ends = np.insert(ends, at, _aligned(offsets[value] + sizes[value]))
    return offsets, int(ends.max(initial=0))


@dataclass(frozen=True, slots=True)
class _Clashes:
    """Which of some values, by their rank, must not share bytes.

    Attributes:
        numbers: the value of each rank.
        classes: a number for the element type of each.
        bits: a row for each rank: bit v says that it is in conflict with value v.
    """

    numbers: npt.NDArray[np.int64]
    classes: npt.NDArray[np.int64]
    bits: npt.NDArray[np.uint8]

    @staticmethod
    def of(order: Sequence[int], classes: Mapping[int, str], conflicts: Mapping[int, int]) -> _Clashes:
        width = max(order, default=0) // 8 + 1
        rows = b"".join(conflicts[value].to_bytes(width, "little") for value in order)
        names = list(dict.fromkeys(classes[value] for value in order))
        return _Clashes(
            np.array(order, np.int64),
            np.array([names.index(classes[value]) for value in order], np.int64),
            np.frombuffer(rows, np.uint8).reshape(len(order), width),
        )

    def among(self, rank: int, others: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which of some ranks must not share bytes with one."""
        value, numbers = int(self.numbers[rank]), self.numbers[others]
        named = _bit(self.bits[rank, numbers >> 3], numbers & 7) | _bit(self.bits[others, value >> 3], value & 7)
        clash: npt.NDArray[np.bool_] = (named != 0) | (self.classes[others] != self.classes[rank])
        return clash


def _bit(bytes_: npt.NDArray[np.uint8], number: Any) -> npt.NDArray[Any]:
    return bytes_ >> number & 1


def _first_gap(starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], size: int) -> int:
    """Return the lowest offset of a gap of ``size`` between what is taken; ``ends`` are aligned."""
    offsets = np.maximum.accumulate(np.concatenate(([0], ends)))
    fits = offsets[:-1] + size <= starts
    return int(offsets[int(fits.argmax())] if fits.any() else offsets[-1])


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT
