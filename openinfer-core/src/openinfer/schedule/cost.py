"""What a tile costs: cycles and registers, from the number of different elements that its copies read.

A body of a tile takes as long as the slowest of four: its arithmetic, its loads, the chain of additions into one total,
and weights that come from the second cache, because what the tiles before have read of them filled the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import ceil, prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from openinfer.affine import Index, Var
    from openinfer.arch import TargetInfo

LATENCY = 4
"""Cycles until the result of an addition may be added to."""

FAR_LINE = 2.0
"""Cycles for a line of 64 bytes from the second cache."""

AGAIN = 0.5
"""Cycles for another iteration of a serial loop."""

FULL = 0.7
"""Share of the first cache that weights can have."""

STARTED = 8.0
"""Cycles to begin and end a tile, in which nothing overlaps."""


class Operand:
    """What the terms of a fold read.

    Attributes:
        number: that of the element.
        lane_step: how far neighbouring lanes lie apart in the buffer; None: they are loaded one by one.
        is_packed: whether its elements lie in the order in which they are read.
    """

    def __init__(self, number: int, at: Sequence[Index], lane_step: int | None, *, is_packed: bool) -> None:
        self.number = number
        self.lane_step = lane_step
        self.is_packed = is_packed
        self._dims = [[(axis, slope) for axis in i.variables() if (slope := i.coefficient(axis))] for i in at]
        self._axes = {axis for index in at for axis in index.variables()}
        self._known: dict[tuple[tuple[int, int], ...], int] = {}

    def distinct(self, counts: Mapping[Var, tuple[int, int]]) -> int:
        """Return how many different elements copies read; ``counts`` has their number and distance for each axis."""
        total = 1
        for dim in self._dims:
            key = tuple((counts[axis][0], slope * counts[axis][1]) for axis, slope in dim if axis in counts)
            if len(key) < 2:
                total *= key[0][0] if key else 1
                continue
            if key not in self._known:
                reached = {0}
                for count, step in key:
                    reached = {place + step * copy for place in reached for copy in range(count)}
                self._known[key] = len(reached)
            total *= self._known[key]
        return total

    def varies(self, axis: Var) -> bool:
        return axis in self._axes


@dataclass(frozen=True, slots=True)
class Tiling:
    """How the places of a fold are cut into tiles.

    Attributes:
        lane: the axis in lanes, with ``lanes`` of them.
        tile: copies along each axis that is not folded; vector registers along the axis in lanes.
        taps: copies along folded axes, which are written out.
        parts: partial totals along folded axes.
        stream: number of the element that passes by.
    """

    lane: Var
    lanes: int
    tile: Mapping[Var, int]
    taps: Mapping[Var, int]
    parts: Mapping[Var, int]
    stream: int | None

    @property
    def accumulators(self) -> int:
        return prod(self.tile.values()) * prod(self.parts.values())

    @property
    def statements(self) -> int:
        return self.accumulators * prod(self.taps.values())

    def counts(self, *copies: Mapping[Var, int]) -> dict[Var, tuple[int, int]]:
        """Return the number of copies and their distance along each axis."""
        every = {axis: count for counted in copies for axis, count in counted.items()}
        return {axis: (count, self.lanes if axis == self.lane else 1) for axis, count in every.items()}


@dataclass(frozen=True, slots=True)
class Work:
    """What the terms of a fold do at one place: its reads, and how many vector instructions the rest takes.

    Attributes:
        lane: the axis in lanes.
        itemsize: bytes of an element in a lane.
        totals: how many totals advance together.
    """

    lane: Var
    operands: Sequence[Operand]
    instructions: int
    extents: Mapping[Var, int]
    folded: Sequence[Var]
    itemsize: int
    totals: int = 1


def registers(work: Work, tiling: Tiling) -> int:
    """Return how many vector registers the body of a tile keeps in use: totals, what stays, and what passes by."""
    tile = tiling.counts(tiling.tile, tiling.parts)
    whole = tiling.counts(tiling.tile, tiling.parts, tiling.taps)
    if tiling.stream is not None:
        kept = sum(o.distinct(whole) for o in work.operands if o.number != tiling.stream)
    elif len(work.operands) > 1:
        kept = sum(sorted(o.distinct(tile) for o in work.operands)[:-1])
    else:
        kept = 0
    return tiling.accumulators * work.totals + kept + 1 + (work.instructions > 1)


def cycles(work: Work, tiling: Tiling, target: TargetInfo) -> float:
    """Return how long all tiles of a stage take."""
    sizes: list[list[tuple[int, int]]] = []
    axes = list(tiling.tile)
    for axis in axes:
        extent = ceil(work.extents[axis] / tiling.lanes) if axis == tiling.lane else work.extents[axis]
        whole, rest = divmod(extent, tiling.tile[axis])
        sizes.append([(number, size) for number, size in ((whole, tiling.tile[axis]), (1, rest)) if number and size])
    others = prod(extent for axis, extent in work.extents.items() if axis not in axes and axis not in work.folded)
    total = 0.0
    for sizing in product(*sizes):
        times = prod(number for number, _ in sizing)
        size = {axis: size for axis, (_, size) in zip(axes, sizing, strict=True)}
        total += times * _tile(work, tiling, size, target)
    return others * total


def rate(work: Work, tiling: Tiling, target: TargetInfo) -> float:
    """Return how long a whole tile takes for each place that it computes."""
    lanes = 1 if tiling.lane in work.folded else tiling.lanes
    return _tile(work, tiling, tiling.tile, target) / (prod(tiling.tile.values()) * lanes)


def _tile(work: Work, tiling: Tiling, size: Mapping[Var, int], target: TargetInfo) -> float:
    """Return the cycles of one tile."""
    inner = {**tiling.parts, **tiling.taps}
    steps = 1.0
    for axis in work.folded:
        extent = work.extents[axis] / (tiling.lanes if axis == tiling.lane else 1)
        steps *= max(1.0, extent / inner.get(axis, 1))
    taps, parts = prod(tiling.taps.values()), prod(tiling.parts.values())
    copies = prod(size.values())
    arithmetic = copies * taps * parts * work.instructions / target.multiply_adds
    if tiling.stream is None:
        counts = tiling.counts(size, tiling.parts)
        loads = taps * sum(_loads(o, o.distinct(counts), tiling.lanes) for o in work.operands)
    else:
        counts = tiling.counts(size, tiling.parts, tiling.taps)
        loads = sum(_loads(o, o.distinct(counts), tiling.lanes) for o in work.operands)
    body = max(arithmetic, loads / target.loads, LATENCY * taps, _far(work, tiling, size, target))
    across = LATENCY * 5.0 * copies if tiling.lane in work.folded else 0.0
    return steps * (body + AGAIN) + copies * (1.0 + parts / 2) + STARTED + across


def _loads(operand: Operand, distinct: int, lanes: int) -> float:
    return distinct * (lanes * 1.5 if operand.lane_step is None else 1.0)


def _far(work: Work, tiling: Tiling, size: Mapping[Var, int], target: TargetInfo) -> float:
    """Return the cycles for weights from the second cache, where those of a tile do not fit the first."""
    counts = tiling.counts(size, tiling.parts, tiling.taps)
    terms = prod(work.extents[axis] for axis in work.folded)
    total = 0.0
    for operand in work.operands:
        if operand.is_packed:
            own = prod(counts[axis][0] * counts[axis][1] for axis in size if operand.varies(axis))
            again = prod(work.extents[axis] for axis in work.extents if not operand.varies(axis))
            used_once = again <= prod(size.get(axis, 1) for axis in work.extents if not operand.varies(axis))
            every = prod(work.extents[axis] for axis in work.extents if operand.varies(axis))
            if (every if used_once else own * terms) * work.itemsize > FULL * target.l1_nbytes:
                total += operand.distinct(counts) * FAR_LINE * tiling.lanes * work.itemsize / target.line_nbytes
    return total
