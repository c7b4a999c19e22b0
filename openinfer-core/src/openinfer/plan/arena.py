"""The static arena: which values may share memory, and where each one lies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openinfer.plan.accesses import members, reads, walk, writes
from openinfer.plan.steps import ElementwiseStep

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.ir.types import TensorType
    from openinfer.plan.liveness import Liveness
    from openinfer.plan.steps import Procedure, Step

ALIGNMENT = 64
"""Bytes at whose multiples values start: a cache line, and the widest vector register."""


def interference(procedures: Sequence[Procedure], liveness: Liveness, types: Sequence[TensorType]) -> list[int]:
    """Return for each value the set of values that it must not share memory with (as bits).

    A value that is written must not lie where anything lives that is read by the same step or needed after it. Only an
    elementwise step may write where it reads, since it reads each element before it writes it.
    """
    conflicts = [0] * len(types)
    for procedure in procedures:
        for step in walk(procedure.steps):
            written = writes(step)
            others = liveness.after(step) | written | (reads(step) & ~_overwritable(step, types))
            for value in members(written):
                conflicts[value] |= others & ~(1 << value)
    for value, others in enumerate(conflicts):
        for other in members(others):
            conflicts[other] |= 1 << value
    return conflicts


def _overwritable(step: Step, types: Sequence[TensorType]) -> int:
    """Return the inputs whose elements lie exactly where those of the output would."""
    if not isinstance(step, ElementwiseStep):
        return 0
    out = types[step.output]
    return sum(1 << value for value in members(reads(step)) if types[value] == out)


def place(sizes: Mapping[int, int], classes: Mapping[int, str], conflicts: Sequence[int]) -> tuple[dict[int, int], int]:
    """Return the offset of each value, and the size of the arena.

    Greedy by size: the largest value first, each at the lowest free offset. Values share bytes only within a class
    (their element type), because C code must not reach one object through two types.

    Args:
        sizes: bytes of each value that needs memory.
        classes: name of the element type of each.
        conflicts: result of `interference`.
    """
    offsets: dict[int, int] = {}
    for value in sorted(sizes, key=lambda v: (-sizes[v], v)):
        taken = sorted(
            (offsets[other], offsets[other] + sizes[other])
            for other in offsets
            if conflicts[value] >> other & 1 or classes[other] != classes[value]
        )
        offsets[value] = _first_gap(taken, sizes[value])
    return offsets, max((_aligned(offsets[v] + sizes[v]) for v in offsets), default=0)


def _first_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    offset = 0
    for start, end in taken:
        if offset + size <= start:
            return offset
        offset = max(offset, _aligned(end))
    return offset


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT
