"""Halos, and copies of images with a halo, for which the arena has no room at its peak.

Windows that cross the border of an image without a halo test their indices, in separate loops for the border.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from openinfer.plan.accesses import members, reads, walk, writes
from openinfer.plan.in_place import overwritten
from openinfer.plan.values import stored_type

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.arch import TargetInfo
    from openinfer.ir.types import TensorType
    from openinfer.layout import Layout
    from openinfer.plan.liveness import Liveness
    from openinfer.plan.steps import Procedure, Step

NARROW = 16
"""Bytes of the widest vector registers for which a border costs little: a few places fill them. With these, networks
without any halo took 0.96 to 1.06 times as long, with registers of 64 bytes up to 1.37 times."""


def is_narrow(target: TargetInfo) -> bool:
    """Whether windows past the border of an image cost little: their arithmetic is as quick in a few places."""
    return target.vector_nbytes <= NARROW


SMALL = 1 << 14
"""Bytes up to which an arena is left as it is: loops at borders make the program longer by more than that. With SMLAD
there are none: what is past a border is found where bytes are widened, or copied into a plane."""


@dataclass(frozen=True, slots=True)
class Room:
    """What the arena has room for.

    Attributes:
        layouts: of values.
        nbytes: that the arena takes at least, however far results overlap operands.
        used: bytes of the values that are there while a step runs, by identity of the step.
        small: bytes up to which an arena is left as it is.
    """

    layouts: Mapping[int, Layout]
    nbytes: int
    used: Mapping[int, int]
    small: int

    @property
    def limit(self) -> int:
        """Bytes up to which the arena does not grow, or is small."""
        return max(self.nbytes, self.small)

    def has(self, step: Step, nbytes: int) -> bool:
        """Whether there is room for more bytes while a step runs."""
        return self.used[id(step)] + nbytes <= self.limit


def room(
    layouts: Mapping[int, Layout],
    procedures: Sequence[Procedure],
    liveness: Liveness,
    types: Sequence[TensorType],
    free: int,
    target: TargetInfo,
) -> Room:
    """Return the room of the arena, with layouts without halos for images that are live when it is fullest.

    Args:
        types: type of each value.
        free: values in the arena, as bits.
    """
    kept, small = dict(layouts), 0 if target.is_scalar else SMALL
    uses = [_use(step, liveness, free) for procedure in procedures for step in walk(procedure.steps)]
    while True:
        sizes = {value: stored_type(types[value], kept.get(value)).nbytes for use in uses for value in use.values}
        used = {id(use.step): sum(sizes[value] for value in use.values) for use in uses}
        least = max((used[id(use.step)] - use.shared(sizes) for use in uses), default=0)
        crowded = {value for use in uses if used[id(use.step)] >= least for value in use.values}
        bordered = [value for value in crowded if value in kept and kept[value].halo]
        if not bordered or least <= small:
            return Room(kept, least, used, small)
        kept |= {value: _without_halo(kept[value]) for value in bordered}


@dataclass(frozen=True, slots=True)
class _Use:
    """The values that are there while a step runs, and those of them that it reads for the last time, and writes."""

    step: Step
    values: tuple[int, ...]
    last: int
    written: int

    def shared(self, sizes: Mapping[int, int]) -> int:
        """Return how many bytes results and operands share at most."""
        return min(sum(sizes[value] for value in members(bits)) for bits in (self.last, self.written))


def _use(step: Step, liveness: Liveness, free: int) -> _Use:
    after, read, written = liveness.after(step) & free, reads(step) & free, writes(step) & free
    live, last = after | read | written, read & ~after & ~written
    for result in members(written):
        # The result takes the place of an operand.
        replaced = next(members(overwritten(step, result) & live & last), None)
        if replaced is not None:
            live, last, written = live & ~(1 << replaced), last & ~(1 << replaced), written & ~(1 << result)
    return _Use(step, tuple(members(live)), last, written)


def _without_halo(layout: Layout) -> Layout:
    digits = tuple(
        replace(digit, extent=digit.extent - sum(layout.halo[digit.dim])) if any(layout.halo[digit.dim]) else digit
        for digit in layout.digits
    )
    return replace(layout, digits=digits, halo=(), fill=0)
